// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, lists, number } from "./en.ts";

// The words of commits, rollouts, global services, fleet sources and the map of clusters. They are a part of the catalog
// that is loaded with these pages, because the first page of most visits needs none of them.

/** How many names a sentence has. */
const mostNames = 6;

const anyOf = new Intl.ListFormat("en", { type: "disjunction" });
const dates = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });

export const delivery = {
  // A commit.
  commit: {
    nowhere: "No service has this commit",
    nowhereBody:
      "It may not have been fetched yet, services may have a newer one, or they are outside of your bindings.",
    reach: {
      title: "Where it is",
      // Rounded down, or one that is missing would not show.
      has: (n: number, total: number) =>
        `${number(n)} of ${count(total, "service has", "services have")} it (${number(Math.floor((1000 * n) / total) / 10)} %)`,
      healthy: "healthy, with it or not",
      failed: "failed or degraded",
      waiting: "do not have it yet",
      left: "are to have another commit by now",
      reasons: "Most common reasons",
    },
    took: {
      title: "How long it took",
      answer: (isHealthy: boolean, n: number, half: string, most: string) => {
        if (n === 1) return `The one service that was measured ${isHealthy ? "was healthy" : "had it"} in ${half}`;
        return `Half of the services ${isHealthy ? "were healthy" : "had it"} in ${half}, 99 % in ${most}`;
      },
      nothing: "No service was measured yet",
      until: "Until it was",
      applied: "applied",
      healthy: "healthy",
      columns: ["half", "90 %", "99 %", "the slowest"],
      slowest: "The slowest",
      none: "—",
      pending: (n: number) =>
        n > 0 &&
        `${count(n, "service is", "services are")} not healthy with it yet, and ${n === 1 ? "is" : "are"} not in the figures.`,
      unknown: (n: number) =>
        n > 0 &&
        `Of ${count(n, "service", "services")} the time is not known: the agent has started again since, the service is paused, or its next change has begun.`,
      definition:
        "The time of a service begins when the hub put its latest change with this commit into the cluster's plan, so a later change of its configuration counts from there, and the clock of the commit's author takes no part. The cluster's agent measures the rest. What a rollout waited before does not count.",
    },
  },

  // Rollouts.
  rollout: {
    none: "No rollout policy yet",
    noneBody: "A rollout policy brings new content to services in waves, and stops when they fail.",
    numbered: (n: bigint) => `Rollout ${n}`,
    states: {
      running: "Running",
      paused: "Paused",
      halted: "Halted",
      rollingBack: "Going back",
      completed: "Completed",
      rolledBack: "Went back",
      aborted: "Aborted",
      replaced: "Replaced",
    } as Record<string, string>,
    waitsOnPerson: "Waits for a person",
    noneYet: "No rollout yet",
    column: { progress: "Progress", held: "What holds it", wave: "Wave" },
    progress: (arrived: number, total: number) => `${number(arrived)} of ${number(total)}`,
    failed: (n: number) => `${number(n)} failed`,
    noneYetBody: "The first one begins when a service that the policy covers changes.",
    change: "What it brings",
    changes: "Changes",
    from: "From",
    to: "To",
    fromNote: (n: bigint) => `From is what rollout ${n} brought, the last one that completed.`,
    editedBy: "Edited by",
    older: (n: bigint) => `This is an earlier rollout. The latest is ${n}.`,
    toLatest: "To the latest rollout",
    until: (at: number) => `It continues by itself at ${dates.format(at)}.`,
    nothingHolds: "Nothing holds it. Members get the change as the policy allows.",
    began: "Began",
    ended: "Ended",
    unavailable: "Unavailable members",
    unavailableOf: (n: number, most: number) => `${number(n)}, of at most ${number(most)}`,
    waves: "Waves",
    waveNames: { rest: "rest: all that no wave takes", late: "late: what joined later" } as Record<string, string>,
    wavePassed: "Passed",
    waveSkipped: "Skipped",
    waveNow: "Under way",
    waveLater: "To come",
    waveEmpty: "No member",
    soaksSince: "All are healthy, since",
    approvedBy: (people: string[]) => `Approved by ${lists.format(people)}`,
    takes: (wave: {
      percent: number;
      eachOf: string;
      count: number;
      clusters: string[];
      labels: Record<string, string>;
    }) => {
      const labels = Object.entries(wave.labels).map(([key, value]) => `${key}=${value}`);
      const shown = wave.clusters.slice(0, mostNames);
      const more = wave.clusters.length - shown.length;
      const which = [
        ...(shown.length > 0
          ? [`in ${anyOf.format(more > 0 ? [...shown, count(more, "other", "others")] : shown)}`]
          : []),
        ...(labels.length > 0 ? [`with ${lists.format(labels)}`] : []),
      ];
      const whom =
        wave.percent > 0
          ? `${number(wave.percent)} % of all members`
          : wave.eachOf
            ? `${count(wave.count || 1, "member", "members")} for each value of ${wave.eachOf}`
            : which.length > 0
              ? "Members"
              : "All members";
      return [whom, ...which].join(" ");
    },
    gateSoak: (time: string) => `${time} in which all are healthy`,
    gateApproval: (n: number, groups: string[]) =>
      `${count(n, "approval", "approvals")}${groups.length > 0 ? ` from ${anyOf.format(groups)}` : ""}`,
    gate: (parts: string[]) => `Before the next wave: ${lists.format(parts)}`,
    stages: {
      failed: "Failed",
      goingBack: "Going back",
      back: "Went back",
      admitted: "On its way",
      waiting: "Waiting",
      arrived: "Has it",
      unchanged: "Not concerned",
    } as Record<string, string>,
    members: "Members",
    membersCut: (shown: number, command: string) =>
      `The first ${number(shown)} in the order of the waves, and the failed ones among them first. ${command} has all.`,
    noMembers: "No member that you may see.",
    service: "Service",
    stage: "Stage",
    history: "Rollouts of this policy",
    policy: "Policy",
    covers: "Covers",
    coversOf: (services: number, taken: number) =>
      services === taken
        ? count(services, "service", "services")
        : `${count(services, "service", "services")}, ${number(taken)} of them taken over yet`,
    maxUnavailable: "At most unavailable",
    budget: "May fail",
    budgetOf: (n: number, of: string) => `${number(n)} of the ${of}`,
    onHalt: "When more fail",
    onHaltOf: { rollback: "All go back", pause: "It halts, for a person to look" } as Record<string, string>,
    onOffline: "A cluster that falls silent",
    onOfflineOf: { skip: "It is no longer waited for", fail: "It counts as failed" } as Record<string, string>,
    onNewer: "Newer commits",
    onNewerOf: { queue: "They wait until it has ended", replace: "They end it" } as Record<string, string>,
    windows: "Windows and freezes",
    windowsOf: (windows: number, freezes: number) =>
      lists.format([
        ...(windows > 0 ? [count(windows, "window", "windows")] : []),
        ...(freezes > 0 ? [count(freezes, "freeze", "freezes")] : []),
      ]),
    approve: "Approve",
    approveTitle: (wave: string) => `Approve what comes after wave ${wave}`,
    approveBody: (wave: string) =>
      `The next wave begins once all members of ${wave} are healthy for as long as the policy says.`,
    approved: "Approved.",
    approvedAlready: "You have approved this wave already.",
    byGroups: (wave: string, groups: string[]) =>
      `Wave ${wave} is approved by members of ${anyOf.format(groups)} alone.`,
    byAuthor: "You have edited what this rollout brings, so another person has to approve it.",
    pauseTitle: (n: bigint) => `Pause rollout ${n}`,
    pauseBody: "No further member gets the change. Those on their way continue.",
    paused: "Paused.",
    resumeTitle: (n: bigint) => `Resume rollout ${n}`,
    resumeBody: "Members get the change again, as the policy allows.",
    resumed: "Resumed.",
    skip: "Skip wave",
    skipTitle: (wave: string) => `Skip wave ${wave}`,
    skipBody: (open: number) =>
      `The rollout no longer waits for ${count(open, "member", "members")} of the wave, nor for its soak. A skip replaces no approval.`,
    skipped: "Skipped.",
    skipNeedsApproval: (wave: string, missing: number) =>
      `Wave ${wave} needs ${count(missing, "more approval", "more approvals")}, which a skip does not replace.`,
    retry: "Try again",
    retryTitle: (n: bigint) => `Try rollout ${n} again`,
    retryBody: "Members that failed get their time again, and the rollout continues where it stopped.",
    retryEndedBody: "The change that this rollout did not bring to all is tried again, as a new rollout.",
    retried: "It is tried again.",
    rollback: "Roll back",
    rollbackTitle: (n: bigint) => `Roll back rollout ${n}`,
    rollbackBody: (n: number) =>
      `${count(n, "member has", "members have")} the change and are healthy. They and all that are on their way get back what they had before, the latest first. The change is not tried again until somebody asks for it.`,
    rolledBack: "It goes back.",
    abort: "Abort",
    abortTitle: (n: bigint) => `Abort rollout ${n}`,
    abortBody: (arrived: number, open: number) =>
      `The rollout ends. ${count(arrived, "member keeps", "members keep")} the change, and ${number(open)} stay without it, so the services of the policy differ. The change is not tried again until somebody asks for it.`,
    aborted: "Aborted.",
    moved: (n: bigint) =>
      `Rollout ${n} has begun in the meantime, and this would have been about it. Look at it first.`,
  },

  // Global services.
  globalService: {
    none: "No global service yet",
    noneBody:
      "A global service is a template of a service and a choice of clusters. The hub keeps one service in each.",
    states: {
      healthy: "Healthy",
      partly: "Not all healthy",
      unhealthy: "Unhealthy",
      somewhere: "Unhealthy in places",
      attention: "Needs attention",
      held: "Held",
      none: "No cluster",
    },
    column: {
      unhealthy: "Unhealthy",
      conflicts: "Conflicts",
      failing: "Failing",
      held: "Held",
      matched: "Selected by",
    },
    healthyOf: (n: number, total: number) => `${number(n)} / ${number(total)}`,
    heldTitle: (n: number) =>
      `${count(n, "cluster keeps", "clusters keep")} the service, although their agents report what the condition excludes`,
    heldBody: "Correct the condition, or agree that the service leaves these clusters:",
    selection: "Which clusters",
    selects: "Selects",
    allClusters: "All clusters, including future ones",
    byLabels: "By labels",
    byNames: "By names",
    byCondition: "If this is true",
    showThem: "Show them",
    andMore: (n: number) => `and ${number(n)} more`,
    labelIn: (values: string) => `is ${values}`,
    labelNotIn: (values: string) => `is not ${values}`,
    labelExists: "exists",
    labelMissing: "does not exist",
    selected: "Selected",
    selectedOf: (n: number) => count(n, "cluster", "clusters"),
    notSelected: "Not selected",
    notSelectedOf: (n: number) => `${count(n, "cluster", "clusters")} that you may see`,
    forbidden: "Left out",
    forbiddenOf: (n: number) => `${count(n, "cluster", "clusters")} that the project may not use`,
    conflictsOf: (n: number) =>
      `${count(n, "cluster has", "clusters have")} a service of this name that a person wrote, which stays`,
    failingOf: (n: number) => `${count(n, "cluster", "clusters")} for which a parameter or an expression fails`,
    othersNote: "The hub names a reason for each selected cluster. A cluster that is not in the list does not fit.",
    template: "Template",
    source: (n: number, of: number) => (of > 1 ? `Source ${n}` : "Source"),
    overrides: "Overrides",
    maxPercent: "One change may remove it from",
    percent: (n: number) => `${number(n)} % of its clusters`,
    members: "Clusters that have it",
    matched: { all: "all", names: "its name", labels: "labels", when: "condition", held: "held" } as Record<
      string,
      string
    >,
    noMembers: "No cluster that you may see",
    noMembersBody: "A cluster appears here once the selection fits it and the project may use it.",
  },

  // Fleet sources.
  fleetSource: {
    none: "No fleet source yet",
    noneBody: "A fleet source keeps the hub's objects equal to the documents in a folder of a repository.",
    states: {
      held: "Waits for a person",
      failed: "Has problems",
      suspended: "Suspended",
      pending: "Would change",
      equal: "As in Git",
      never: "Not looked yet",
      old: "Not as in Git",
    },
    column: { documents: "Documents", managed: "Managed", failed: "Failed", held: "Held", equal: "Last equal" },
    dryRun: "Dry run",
    suspended: "Suspended",
    heldTitle: (n: number) => `${count(n, "removal waits", "removals wait")} for a person to agree`,
    heldBody:
      "Their documents are gone, and there are more of them than the source may remove unasked. Restore the documents in Git, or look at what would go and agree.",
    pendingTitle: (n: number) => `It would make ${count(n, "change", "changes")}`,
    pendingBody: "It is a dry run, so it makes none of them. The documents below say which.",
    suspendedTitle: "It writes nothing while it is suspended",
    suspendedUntil: "That ends by itself",
    look: "Latest look",
    commit: "Commit",
    looked: "Looked",
    equalSince: "Equal to Git",
    counts: "Objects",
    countsOf: (documents: number, managed: number) =>
      `${count(documents, "document", "documents")}, ${number(managed)} managed`,
    failedOf: (n: number) => `${count(n, "document", "documents")} not applied`,
    spec: "What it may do",
    follows: "Follows",
    folder: "Folder",
    role: "Acts as",
    roles: { 0: "editor", 3: "admin", 4: "editor" } as Record<number, string>,
    scope: "Writes in",
    wholeHub: "the whole hub",
    ownProject: "its own project",
    interval: "Compares every",
    prune: "Removes",
    pruneUpTo: (n: number) => `up to ${number(n)} objects at once without asking`,
    pruneNever: "nothing",
    documents: "Documents",
    position: "Document",
    object: "Object",
    action: "Result",
    actions: {
      1: "Unchanged",
      2: "Created",
      3: "Changed",
      4: "Removed",
      5: "Held",
      6: "Kept",
      7: "Conflict",
      8: "Failed",
    } as Record<number, string>,
    wouldActions: { 2: "Would be created", 3: "Would be changed", 4: "Would be removed" } as Record<number, string>,
    gone: "gone from Git",
    noDocuments: "No document yet",
    noDocumentsBody: "The result of each document appears here after the first look.",
    sync: "Sync now",
    syncAsked: "Sync requested. The look follows within seconds.",
    syncing: "Looking now …",
    syncSuspended: "It is suspended, so it looks at nothing.",
    confirm: "Confirm removals",
    nothingHeld: "No removal waits for a confirmation.",
    confirmTitle: (n: number, name: string) => `Remove ${count(n, "object", "objects")} of ${name}`,
    confirmBody: "These objects go, and no others. What services of theirs run in clusters goes with them.",
    confirmVerb: (n: number) => `Remove ${count(n, "object", "objects")}`,
    confirmRead: (n: number) => `${count(n, "object", "objects")} would go.`,
    confirmMore: (n: number) => `and ${number(n)} more, which leat fleetsource status lists`,
    confirmed: "Confirmed. The objects go with the next look, within seconds.",
    confirmMoved: "Other removals are held by now than those that were shown. Look at them again.",
    reading: "Reading what would go …",
    typeNameHelp: "Because more than three objects go.",
  },

  // The map of clusters.
  map: {
    title: "Map of the clusters",
    table: "Table",
    map: "Map",
    views: "View",
    groupBy: "Group by",
    noGroup: "nothing",
    without: (key: string) => `without ${key}`,
    others: "other values",
    cell: (ref: string, phase: string, group: string) => [ref, phase, group].filter(Boolean).join(", "),
    keys: "Arrow keys move to another cluster, and Enter opens it.",
    loading: "Reading the clusters",
  },

  // Pages of a list that the hub returns in pages.
  pagesOf: (what: string) => `Pages of ${what.toLowerCase()}`,
  firstPage: "First page",
  nextPage: "Next page",

  // Lists of objects that the page sorts.
  cut: (shown: number, total: number) =>
    `The first ${number(shown)} of ${number(total)} by name are shown. A filter finds the others.`,
};
