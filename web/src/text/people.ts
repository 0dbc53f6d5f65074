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

  give: {
    button: "Give access",
    asking: "The hub is asked whether you may give access.",
    refused: (reason: string) => `You may not give access. The hub says: ${reason}`,
    title: "Give access",
    verb: "Give",
    body: "They may do this from now on, in addition to what they may do already. Nobody can give what they do not hold themselves.",
    users: "People",
    usersHelp: "Names of users of the hub, with a comma between them.",
    groups: "Groups",
    groupsHelp: "Names of groups, with a comma between them.",
    clusters: "Clusters",
    clustersHelp: "Names of clusters, with a comma between them. The services in them belong to it.",
    namespaces: "Namespaces (optional)",
    namespacesHelp: "Only requests in these namespaces. Without one, in all of the cluster.",
    role: "Role",
    roles: {
      viewer: "viewer: see",
      operator: "operator: also sync, pause and roll back",
      editor: "editor: also create, change and delete services",
      admin: "admin: everything",
    },
    life: "For",
    lives: {
      1: "an hour",
      8: "8 hours",
      24: "a day",
      168: "a week",
      720: "30 days",
      0: "ever, until somebody deletes it",
    },
    needsPeople: "Name a person or a group first.",
    needsClusters: "Name a cluster first.",
    tooMany: (n: number) => `One binding has at most ${number(n)} names.`,
    done: (name: string) => `The binding ${name} gives it now. To end it earlier: leat delete accessbinding ${name}.`,
  },

  requests: {
    button: "Request access",
    title: "Request access",
    verb: "Request",
    body: "Somebody who could give this decides. It gives nothing before that, and ends by itself after the time that you ask for.",
    clusters: "Clusters",
    clustersHelp: "Names of clusters, with a comma between them. The services in them belong to it.",
    namespaces: "Namespaces (optional)",
    namespacesHelp: "Only requests in these namespaces. Without one, in all of the cluster.",
    needsClusters: "Name a cluster first.",
    needsReason: "Write a reason first, which the people who decide read.",
    lives: { 1: "an hour", 8: "8 hours", 24: "a day", 168: "a week" },
    made: (name: string) => `Your request ${name} waits for a decision.`,
    card: "Requests for access",
    help: "Your own requests, and those that you may decide about.",
    none: "No requests of yours, and none that you may decide about.",
    columns: ["Person", "Role", "Where", "For", "Reason", "State", ""],
    states: { 0: "unknown", 1: "open", 2: "approved", 3: "denied", 4: "withdrawn", 5: "lapsed" },
    by: (who: string) => `by ${who}`,
    ends: "ends",
    lapses: "lapses",
    scope: {
      allClusters: "all clusters",
      allProjects: "all projects",
      clusters: (names: string[]) => `clusters ${names.join(", ")}`,
      labels: "clusters by labels",
      projects: (names: string[]) => `projects ${names.join(", ")}`,
      services: (names: string[]) => `services ${names.join(", ")}`,
      repositories: (names: string[]) => `repositories ${names.join(", ")}`,
    },
    only: (rules: string) => `only ${rules}`,
    span: (seconds: number) => {
      const units = [
        [86_400, "d"],
        [3600, "h"],
        [60, "min"],
        [1, "s"],
      ] as const;
      let left = seconds;
      return units
        .flatMap(([length, unit]) => {
          const whole = Math.floor(left / length);
          left -= whole * length;
          return whole > 0 ? [`${whole} ${unit}`] : [];
        })
        .join(" ");
    },
    approve: {
      title: (who: string) => `Approve the request of ${who}`,
      verb: "Approve",
      body: (who: string, role: string, where: string, span: string) =>
        `${who} has the role ${role} in ${where} for ${span} from now on.`,
      done: (name: string) => `The binding ${name} gives it now. To end it earlier: leat delete accessbinding ${name}.`,
    },
    deny: {
      title: (who: string) => `Deny the request of ${who}`,
      verb: "Deny",
      body: (who: string) => `${who} sees the reason that you give.`,
      done: (who: string) => `The request of ${who} is denied.`,
    },
    withdraw: {
      title: "Withdraw your request",
      verb: "Withdraw",
      body: "Nobody can approve it after that.",
      done: "Your request is withdrawn.",
    },
  },

  audit: {
    question: "Filter the record",
    more: "More filters",
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
