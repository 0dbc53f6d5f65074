// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, lists, number } from "./en.ts";

// The words of what explains a service. The parts of its page load them.

export const understand = {
  // What a cluster, and not the hub, answers.
  reach: {
    offline: "The cluster is not connected",
    refusedByHub: "Your bindings do not allow this",
    refusedByHubAdvice:
      "The cluster's agent has to be asked, so a binding of the service or its project is not enough. Ask an administrator of the hub for a binding of the cluster.",
    refusedByCluster: "The cluster does not allow this",
    refusedByClusterAdvice:
      "The hub let the request pass. The cluster's own RBAC refused it for you and your groups: ask the cluster's owner for a role there.",
    missing: "The cluster has no such object",
    agentFailed: "The cluster's agent does not answer",
    clusterFailed: "The cluster's API server failed to answer",
    whatMayI: "What you may do",
    shownFrom: "What is shown was read",
    silent: "The cluster's agent has not answered for some seconds",
  },

  // Why a service is not well.
  whyPanel: {
    button: "Why?",
    hide: "Hide the explanation",
    title: "Why it is not well",
    object: "What is wrong",
    noObject: "The agent reports no object that is unhealthy. The cause is the reason above.",
    allObjects: "All objects",
    warnings: "Latest warnings",
    noWarnings: "The cluster has noted no warning about it. Clusters forget events after an hour.",
    log: "The last lines of its log",
    noLog: "The log is empty, or the container has not begun.",
    noPod: "It has no pod that is unwell.",
    podUnknown: "Its pods could not be read, so it is not known whose log to show.",
    previous: "the log is of the container before the present one",
    ended: (container: string, reason: string, exitCode: number | undefined, restarts: number) =>
      [
        `Container ${container}`,
        reason,
        exitCode !== undefined && `exit code ${exitCode}`,
        restarts > 0 && count(restarts, "restart", "restarts"),
      ]
        .filter(Boolean)
        .join(" · "),
    before: "What changed before",
    revision: (n: bigint) => `Revision ${n}`,
    drifted: (object: string) => `${object} was changed by others:`,
    allRevisions: "All revisions",
  },

  // A service's logs.
  logs: {
    tab: "Logs",
    title: "Logs of all pods",
    podTitle: "Logs of the pod",
    find: "Find in the logs",
    findPlaceholder: "Text, or a regular expression",
    regexp: "Regular expression",
    objection: (words: string) => `The expression cannot be used: ${words}.`,
    pod: "Pod",
    allPods: "All pods",
    container: "Container",
    allContainers: "All containers",
    since: "From",
    sinceTail: "The last 500 lines of each",
    sinces: [
      [300, "5 minutes ago"],
      [3600, "1 hour ago"],
      [21_600, "6 hours ago"],
      [86_400, "1 day ago"],
    ] as [number, string][],
    previous: "Before the last restart",
    newest: "To the newest",
    time: "Time",
    line: "Line",
    matching: (n: number) => count(n, "line matches", "lines match"),
    shown: (shown: number, all: number, containers: number) =>
      `${shown === all ? count(all, "line", "lines") : `${number(shown)} of ${count(all, "line", "lines")}`} of ${count(containers, "container", "containers")}`,
    dropped: (n: number) => `The ${number(n)} oldest lines were dropped to make room for newer ones.`,
    omitted: (n: number, most: number) =>
      `The logs of ${number(most)} containers are read; ${number(n)} more are left out. Choose a pod or a container.`,
    gap: "A container writes faster than the page can read, so some of its lines are missing.",
    failed: (n: number) => `${count(n, "log", "logs")} could not be read`,
    noPods: "No pod, so no log",
    noPodsBody: "The service has no Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or Pod with pods of its own.",
    noLines: "No lines yet",
    noLinesBody: "What the containers write appears here as they write it.",
    noMatch: "No line matches",
    chosen: "The chosen line",
  },

  // A service's events.
  events: {
    tab: "Events",
    title: "Events",
    warnings: "Warnings only",
    agent: "Agent",
    agentLive: "What the agent does from now on appears here, too.",
    none: "No event",
    noneBody:
      "Clusters forget events after an hour. What the agent does from now on appears here; revisions have what it did before.",
    noWarnings: "No warning",
    more: "The namespace has more events than are read, so older ones may be missing.",
    times: (n: number) => `× ${number(n)}`,
    count: "Times",
    last: "Latest",
  },

  // What a run would change.
  diff: {
    tab: "Diff",
    title: "What a run would change",
    again: "Compare again",
    comparing: "The cluster's API server compares each object. That can take a minute.",
    none: "Nothing would change",
    noneBody: "The cluster has what the sources and the configuration say.",
    masked: "Values of Secrets are masked by the agent, so they never reach this page.",
    actions: { 1: "Create", 2: "Change", 3: "Delete", 4: "Refused" } as Record<number, string>,
    counts: { 1: "created", 2: "changed", 3: "deleted", 4: "refused" } as Record<number, string>,
    part: (n: number, word: string) => `${number(n)} ${word}`,
    noDetails: "There is no comparison of this object.",
    more: (n: number) => `Show ${count(n, "more line", "more lines")}`,
    moreObjects: (n: number) =>
      `${count(n, "more object is", "more objects are")} not shown. The command line lists all.`,
    readAt: "Compared",
    problem: "It would not happen",
    unchanged: "Unchanged",
    unchangedTitle: "Differ only in what is ignored",
    unchangedNote: "A run leaves these objects as they are: rules leave the fields that differ to others.",
    // Who manages the fields that would change.
    fields: {
      title: "Fields that would change",
      columns: ["Field", "Now", "Then", "Managed by"],
      ignoredTitle: "Ignored fields",
      ignoredColumns: ["Field", "In the cluster", "In the manifest", "Managed by", "Ignored by"],
      nothing: "not there",
      nobody: "nobody",
      leat: "Leat",
      taken: "A run takes it over",
      others: "Only what others manage",
      noOthers: "Nobody else manages a field that would change",
      noOthersBody: "All of these fields are Leat's, or nobody's.",
      inHead: (fields: number, names: readonly string[], more: number) =>
        `${count(fields, "field", "fields")} managed by ${lists.format(more > 0 ? [...names, count(more, "other", "others")] : names)}`,
      more: (n: number) => `${count(n, "more field is", "more fields are")} not listed.`,
    },
  },

  // A service's objects.
  tree: {
    tab: "Objects",
    label: "Objects of the service",
    title: (total: number, bad: number) =>
      bad === 0
        ? `${count(total, "object", "objects")}, all well`
        : `${number(bad)} of ${count(total, "object", "objects")} ${bad === 1 ? "needs" : "need"} attention`,
    none: "No object",
    noneBody: "The agent has applied nothing for this service.",
    moreObjects: (shown: number) => `Only the first ${number(shown)} objects are shown. The command line lists all.`,
    mostFollowed: (most: number) =>
      `Only the pods of the first ${number(most)} unfolded workloads are kept up to date. Fold some of them.`,
    morePods: (more: number) => (more < 0 ? "More pods are not shown" : `${count(more, "pod", "pods")} more not shown`),
    noPods: "No pods",
    countOf: (n: number, health: string) => `${number(n)} ${health.toLowerCase()}`,
    ready: (of: string) => (of === "" ? "" : `${of} ready`),
    restarts: (of: string) => {
      const [, n = of, ago] = /^(\d+)(?: \((.+) ago\))?$/.exec(of) ?? [];
      const restarts = n === "1" ? "1 restart" : `${n} restarts`;
      return ago ? `${restarts}, the last ${ago} ago` : restarts;
    },
    onNode: (node: string) => `on ${node}`,
    age: "Age",
  },
};
