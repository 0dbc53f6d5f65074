// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, number } from "./en.ts";

// The words of access, of the audit log and of a person's own account. They are a part of the catalog that is loaded with
// these pages, because the first page of most visits needs none of them.

export const people = {
  access: {
    question: "Who may do what",
    help:
      "Ask for a cluster, or for the hub itself without one. A verb and a resource ask for one thing, in kubectl's words: " +
      "pods/log, deployments.apps, services.leat.dev, /metrics.",
    ask: "Ask",
    half: "One thing needs both a verb and a resource. Without either the answer is about everything.",
    cluster: "Cluster",
    verb: "Verb",
    resource: "Resource",
    namespace: "Namespace",
    user: "Person (you if empty)",
    answer: "Answer",
    allowed: "Allowed",
    refused: "Not allowed",
    userInCluster: "User in the cluster",
    groupsInCluster: "Groups in the cluster, whose rights its own RBAC decides",
    reasonColumns: ["Binding", "Role", "By", "Only", "Ends"],
    administrators: "leat:admins",
    never: "Never",
    verbs: "Verbs",
    rule: (verbs: string[], resources: string[], groups: string[], namespaces: string[]) =>
      [
        verbs.length > 0 ? verbs.join(", ") : "all verbs",
        resources.length > 0 && `of ${resources.join(", ")}`,
        groups.length > 0 && `in ${groups.map((group) => group || "core").join(", ")}`,
        namespaces.length > 0 && `in the namespaces ${namespaces.join(", ")}`,
      ]
        .filter(Boolean)
        .join(" "),
    whoCan: "Who else may",
    whoCanRefused: "Only people who may read the audit log see who else may do this.",
    nobody: "Nobody may",
    holderColumns: ["Person", "By", "Binding", "Role", "Until"],
    everybodyIn: (group: string) => `everybody in ${group}`,
    more: (n: number) => `and ${number(n)} more. leat access who-can lists all.`,
  },

  audit: {
    question: "Filter the record",
    records: "Records",
    by: "Person",
    verb: "Verb",
    kind: "Kind",
    name: "Name",
    cluster: "Cluster",
    outcome: "Outcome",
    outcomes: [
      ["", "All"],
      ["OK", "Done"],
      ["REFUSED", "Refused"],
    ] as [string, string][],
    since: "Time",
    spans: [
      ["", "All"],
      ["1h", "Last hour"],
      ["24h", "Last 24 hours"],
      ["7d", "Last 7 days"],
      ["30d", "Last 30 days"],
    ] as [string, string][],
    columns: ["When", "Who", "What", "Outcome"],
    done: "Done",
    none: "No record",
    noneBody: "Nothing was changed or refused that matches. A longer time or a shorter filter may show more.",
    older: "Show older ones",
    end: "No older records match.",
    tooMany: (n: number) => `A page shows ${number(n)} records. Narrow the filter to see older ones.`,
    summary: (n: number) => `Stands for ${count(n, "refused call", "refused calls")}.`,
    limit: (limit: string) => `With an API token that is limited to: ${limit}.`,
    changes: (n: number) => count(n, "changed field", "changed fields"),
    omitted: (n: number) => `and ${number(n)} more`,
    unset: "not set",
    secret: { 0: "", 1: "secret set", 2: "secret replaced", 3: "secret removed" } as Record<number, string>,
  },

  me: {
    who: "Who you are",
    name: "Name",
    groups: "Groups in the hub",
    noGroups: "None",
    rights: "Rights",
    toRights: "What you may do, and by which bindings",
    tokens: "API tokens",
    tokensBody:
      "A token lets a program do what you may do, within its limit. Browsers that are signed in have one, too.",
    newToken: "A new one",
    noTokens: "You have no API token",
    tokenColumns: ["For", "Limit", "Made", "Last used", "Ends", "Action"],
    moreTokens: (n: number) => `The first ${number(n)}. leat get tokens lists all.`,
    noLimit: "None",
    allProjects: "all projects",
    allClusters: "all clusters",
    labelledClusters: "clusters with certain labels",
    end: "End it",
    endToken: (label: string) => `End the token “${label}”?`,
    endTokenBody:
      "Programs with it are refused within 30 seconds, and so are the tokens that were made with it if it has a limit. If it is this browser's, you are signed out.",
    ended: "Ended.",
    never: "Never",
    sessions: "Sign-ins with an identity provider",
    noSessions: "No sign-in with an identity provider.",
    sessionColumns: ["Program", "Provider", "Began", "Last used", "Ends", "Action"],
    clients: { 0: "Unknown", 1: "Command line", 2: "Device", 3: "Browser" } as Record<number, string>,
    endSession: (client: string | undefined) => `End the sign-in of: ${client}?`,
    endSessionBody: "Its program has to sign in again. Requests to clusters that run end within about 90 seconds.",
  },
};
