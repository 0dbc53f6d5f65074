// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// All words of the UI. Another language is a file with the same keys and types.

const numbers = new Intl.NumberFormat("en");
const plurals = new Intl.PluralRules("en");
export const lists = new Intl.ListFormat("en", { type: "conjunction" });
export const times = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** Returns a number of bytes in the largest unit of which there is one, with three digits. */
export function size(bytes: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const format = { style: "unit", unit: units[step] ?? "byte", maximumSignificantDigits: 3 } as const;
  return new Intl.NumberFormat("en", format).format(bytes / 1000 ** step);
}

const exact = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "long" });
const spans = Object.fromEntries(
  (["year", "day", "hour", "minute", "second"] as const).map((unit) => [
    unit,
    new Intl.NumberFormat("en", { style: "unit", unit, unitDisplay: "short" }),
  ]),
);

export const number = (n: number) => numbers.format(n);
export const count = (n: number, one: string, many: string) =>
  `${number(n)} ${plurals.select(n) === "one" ? one : many}`;

const kinds: Record<string, [string, string]> = {
  Service: ["service", "services"],
  Cluster: ["cluster", "clusters"],
  Repository: ["repository", "repositories"],
  RolloutPolicy: ["rollout policy", "rollout policies"],
  FleetSource: ["fleet source", "fleet sources"],
  ImagePolicy: ["image policy", "image policies"],
  GlobalService: ["global service", "global services"],
  Notifier: ["notifier", "notifiers"],
  Project: ["project", "projects"],
  ConfigSet: ["set of configuration", "sets of configuration"],
  ConfigBackend: ["back end of configurations", "back ends of configurations"],
  Hub: ["part of the hub", "parts of the hub"],
};

// Reasons are many and grow, so the two are records by text.
/** What else a filter may name, by kind. Objects of every kind have labels. */
const filterExamples: Record<string, string> = {
  Service: "reason=APPLY_REJECTED",
  Cluster: "phase=DISCONNECTED",
  Repository: "reason=UPSTREAM_UNREACHABLE",
  GlobalService: "reason=REMOVAL_HELD",
};

const advice: Record<string, string> = {
  FIELD_INVALID: "Correct the field; nothing was changed.",
  VERSION_CONFLICT: "Somebody changed it in between. Look at it again, and repeat what you did if it still applies.",
  FLEET_SOURCE_MANAGED: "Change the document in Git; or suspend the fleet source, and edit until it continues.",
  SERVICE_DERIVED: "Change the global service, or give it an override for this cluster.",
  REVISION_UNAVAILABLE: "Choose another revision, or revert the commit in the repository.",
  ROLLOUT_REFUSED: "Look at what the rollout waits for.",
  ACCESS_REQUEST_CLOSED: "Have its author ask again, if the access is still needed.",
  ACCESS_REQUEST_OWN: "Have another person decide who could give what it asks for.",
  ACCESS_REQUESTS_FULL: "Withdraw a request of yours, or wait for a decision.",
  ROLLOUT_BY_AUTHOR: "Ask another person who may approve, who has not edited what the rollout brings.",
  NOT_FOUND: "Check the name. Objects outside of your bindings are not shown.",
  NAME_AMBIGUOUS: "Name it as NAME@CLUSTER.",
  REFERENCE_NOT_FOUND: "Create the object that it names first.",
  IN_USE: "First delete or change the objects that name it.",
  REPOSITORY_NOT_FOUND: "Check the repository's URL, and whether its credential may read it.",
  REF_NOT_FOUND: "Check the service's ref. It may not have been pushed yet.",
  PATH_NOT_FOUND: "Check the service's path. It is relative to the repository's root.",
  UPSTREAM_AUTH_REJECTED: "Replace the credential in the repository's spec.",
  UPSTREAM_UNREACHABLE:
    "Leat continues to serve mirrored content and retries. Check the URL and the network if this lasts.",
  UPSTREAM_PROTOCOL: "Check the repository's URL: it does not answer as a Git server.",
  UPSTREAM_RATE_LIMITED: "Leat slows down and retries.",
  UPSTREAM_SIGNATURE_REJECTED: "Sign and push, or add the signer's key to the repository's spec.",
  REPOSITORY_NOT_READY: "Its first fetch is under way.",
  BUNDLE_TOO_LARGE: "Split the folder, or raise the limit.",
  CONTENT_UNSUPPORTED: "Change that file in the repository.",
  STORAGE_FULL: "An operator has to give the hub more room.",
  CONFIG_REFERENCE_INVALID:
    "Correct the reference, the set, or the cluster's labels. leat config explain shows where it is.",
  TOKEN_INVALID: "Sign in again.",
  ACCESS_DENIED: "Ask an administrator of the hub for a binding.",
  RATE_LIMITED: "Wait a moment and try again.",
  DEADLINE_EXCEEDED: "Narrow the selection, or try again.",
  AGENT_OFFLINE: "Check that the cluster's agent runs and reaches the tunnel.",
  AGENT_OUTDATED: "Upgrade the cluster's agent. The service stays as it is until then.",
  AGENT_ITSELF: "Put the object back into the manifests. The agent lives on meanwhile.",
  AGENT_POD_UNREADABLE: "Grant the agent's account the right that the message names. It continues automatically.",
  AGENT_VERSION_SKEW: "Bring the agent to the version of the hub. For a newer agent, upgrade the hub first.",
  CLUSTER_UNREACHABLE: "Check the cluster: its agent does not reach the API server.",
  CLUSTER_UNLOCKED: "Give each service an account, then set LEAT_AGENT_LOCK_DOWN in the cluster.",
  HUB_TOKEN_REFUSED: "An operator of the hub has to compare the clocks of its machines, and the keys of its parts.",
  DEPENDENCY_UNAVAILABLE: "A part of the hub does not answer. Try again in a moment.",
  INTERNAL: "This is a defect in Leat. Its cause is in the server's log under the error's id. Please report it.",
  MANIFEST_INVALID: "Correct the file in the repository. The last good state stays applied.",
  APPLY_REJECTED: "Correct the manifest or the cluster's policy.",
  APPLY_CONFLICT: "Remove those fields from one of the two, or set spec.sync.forceConflicts.",
  HEALTH_TIMEOUT: "Look at those objects with kubectl describe. leat kubeconfig CLUSTER gives access.",
  PRUNE_GUARDED: "Restore the manifests, or see with leat prune confirm what would go, and agree.",
  BUNDLE_UNAVAILABLE: "The agent retries. The last good state stays applied.",
  DRIFT_DETECTED: "leat get service shows the differences. leat sync reverts them.",
  DEPENDENCY_NOT_READY: "It continues automatically. Check the object that the message names.",
  SYNC_WINDOW_CLOSED: "It continues when the window opens. leat sync does not wait.",
  TEST_FAILED: "See the end of the test's log with leat get service. leat sync runs the tests again.",
  OBJECT_CLAIMED: "Remove the object from one of the two services.",
  REMOVAL_HELD: "Correct the condition of the global service, or agree with leat prune confirm.",
  ROLLOUT_STOPPED: "See leat rollout status, and approve, retry or roll back.",
  FLEET_SOURCE_DOCUMENTS: "Correct the documents in Git. leat fleetsource status lists them with file and line.",
  FLEET_SOURCE_HELD: "Restore the documents in Git, or agree with leat fleetsource confirm.",
};

const failureAdvice: Record<string, string> = {
  unreachable: "The page tries again by itself. The command line may reach the hub another way.",
  busy: "The page tries again by itself.",
  refused: "Ask an administrator of the hub for a binding.",
  missing: "It may have been deleted, or it is outside of your bindings.",
};

export const text = {
  product: "Leat",
  number,
  count: (n: number, kind: string) => {
    const [one, many] = kinds[kind] ?? [kind.toLowerCase(), `${kind.toLowerCase()} objects`];
    return count(n, one, many);
  },
  list: (parts: string[]) => lists.format(parts),
  /** The hub begins its messages in lower case, as parts of sentences. */
  sentence: (message: string) => message.charAt(0).toUpperCase() + message.slice(1),
  now: "now",
  ago: (n: number, unit: string) => `${spans[unit]?.format(n)} ago`,
  until: (n: number, unit: string) => `in ${spans[unit]?.format(n)}`,
  exactTime: (at: number) => exact.format(at),
  titleOf: (page: string) => (page === "" ? "Leat" : `${page} · Leat`),

  phase: {
    HEALTHY: "Healthy",
    PROGRESSING: "Progressing",
    SYNCING: "Syncing",
    PENDING: "Pending",
    PAUSED: "Paused",
    DEGRADED: "Degraded",
    FAILED: "Failed",
    CONNECTED: "Connected",
    DISCONNECTED: "Disconnected",
    NOT_JOINED: "Not joined",
    READY: "Ready",
    CLONING: "Cloning",
    STALE: "Stale",
    SUSPENDED: "Suspended",
    UNKNOWN: "Unknown",
  },
  wasPhase: (word: string) => `Was ${word.toLowerCase()}`,
  severity: { 0: "Well", 1: "Waiting", 2: "Warning", 3: "Degraded", 4: "Failed" } as Record<number, string>,
  advice,
  failureAdvice,
  failureTitle: {
    signedOut: "You are signed out",
    refused: "You may not see this",
    missing: "There is no such object",
    invalid: "The hub does not understand this",
    unreachable: "The hub does not answer",
    busy: "The hub has much to do",
    failed: "The hub failed to answer",
  },

  // Parts.
  loading: "Loading",
  moreRows: (n: number) => `and ${number(n)} more`,
  tryAgain: "Try again",
  close: "Close",
  dismiss: "Dismiss",
  earlierMessages: (n: number) => count(n, "earlier message", "earlier messages"),
  none: "None",
  copied: "Copied",
  copyFailed: "The browser did not allow that. Select the text to copy it.",
  copyCommand: (command: string) => `Copy ${command}`,
  opensBeside: "(opens in a new tab)",
  filterPlaceholder: (kind: string) => `Filter, such as name=web* ${filterExamples[kind] ?? "label.team=shop"}`,
  clearFilter: "Clear the filter",
  sortBy: "(sort)",
  palette: "Go to",
  palettePlaceholder: "A page, a service, a cluster …",
  paletteHelp: "↑ ↓ to choose, Enter to open, Esc to close",
  searching: "Searching …",
  nothingFound: "Nothing found",

  cancel: "Cancel",

  // Shell.
  skip: "Skip to the content",
  navigation: "Pages",
  more: "More",
  morePlaces: "More pages",
  problems: "Problems",
  services: "Services",
  clusters: "Clusters",
  repositories: "Repositories",
  rollouts: "Rollouts",
  globalServices: "Global services",
  fleetSources: "Fleet sources",
  imagePolicies: "Images",
  projects: "Projects",
  configuration: "Configuration",
  access: "Access",
  audit: "Audit",
  me: "Your account",
  recordings: "Recordings",
  find: "Find",
  theme: "Theme",
  themes: { system: "As the system", light: "Light", dark: "Dark" },
  account: (person: string) => `Signed in as ${person}`,
  licences: "Licences of this page",
  signOut: "Sign out",
  pages: "Pages",
  actions: "Actions",
  themeNamed: (theme: string) => `Theme: ${theme.toLowerCase()}`,
  link: {
    live: "Live",
    loading: "Loading",
    paused: "Paused",
    reconnecting: "Reconnecting",
    stopped: "Stopped",
  },
  linkTitle: {
    live: "Changes appear as they happen.",
    loading: "The first answer is on its way.",
    paused: "Paused while the tab is hidden.",
    reconnecting: "The connection to the hub is lost. The page tries again by itself.",
    stopped: "The hub refused to continue.",
  },
  asOf: (at: number) => `as of ${times.format(at)}`,
  noSuchPage: "There is no such page",
  noSuchPageBody: "The address may be misspelt, or the page may have moved.",
  toProblems: "To the problems",
  pageBroke: "This page broke",
  pageBrokeBody: "That is a defect of the UI. Please report it with this text:",
  reload: "Reload",
  pageGone: "This page did not load",
  pageGoneBody:
    "The hub does not answer, or it was upgraded and serves another version of the UI. Reload to get the version of now.",
  partGone: "This part of the page did not load. Reload the page to try again.",
  newBuild: "The hub has another version of this page.",
  reloadTitle: "Reload, and lose what you have typed?",
  reloadLoses: "The page has text that is not sent. Copy it first, if you still need it.",

  // Sign-in.
  signingIn: "Signing in …",
  noCookie:
    "Your browser has kept no session. It keeps one for https alone, and on your own machine at localhost or leat.localhost.",

  // Problems.
  allWell: "All is well",
  nothingWrong: "Nothing needs attention",
  problemCount: (n: number) => `${count(n, "problem", "problems")} ${n === 1 ? "needs" : "need"} attention`,
  waitingOnly: "Nothing is wrong; some things wait",
  problemsOmitted: (n: number) => `${count(n, "smaller problem is", "smaller problems are")} not shown.`,
  inClusters: (n: number) => `in ${count(n, "cluster", "clusters")}`,
  withServices: (n: number) => `with ${count(n, "service", "services")}, whose states are old`,
  lastSeen: "latest",
  showAll: (n: number, kind: string) =>
    n === 1 ? `Show it in ${(kinds[kind] ?? ["", kind])[1]}` : `Show all ${number(n)}`,
  noFleet: "No cluster has joined yet",
  noFleetBody: "Create a cluster, and run the agent that the command prints in it. It appears here by itself.",
  notJoinedBody: "Run the agent that the command prints in the cluster. It joins by itself.",
  allWellBody: (services: number, clusters: number) =>
    `${count(services, "service", "services")} in ${count(clusters, "cluster", "clusters")}. A problem appears here by itself, grouped with others that have the same cause.`,
  sameAs: "Same as",

  // Lists.
  newest: "the newest is",
  filterLabel: (kind: string) => `Filter ${(kinds[kind] ?? ["", kind])[1]}`,
  all: "All",
  select: (ref: string) => `Select ${ref}`,
  selectAll: (n: number) => `Select all ${number(n)} that match`,
  shownCount: (n: number, kind: string) => {
    const [one, many] = kinds[kind] ?? [kind, kind];
    return count(n, one, many);
  },
  noMatch: "Nothing matches this filter",
  noMatchBody: "Remove a term, or another phase may hold what you look for.",
  noServices: "No service yet",
  noServicesBody: "A service is what one cluster runs from a folder of a repository.",
  noClusters: "No cluster yet",
  noClustersBody: "A cluster joins when its agent runs.",
  noRepositories: "No repository yet",
  noRepositoriesBody: "A repository is where manifests come from: Git, Helm or OCI.",
  column: {
    name: "Name",
    cluster: "Cluster",
    namespace: "Namespace",
    phase: "Phase",
    reason: "Reason",
    since: "Since",
    healthy: "Healthy",
    services: "Services",
    commit: "Commit",
    version: "Agent",
    kubernetes: "Kubernetes",
    lastSeen: "Last seen",
    url: "URL",
    repository: "Repository",
    ref: "Ref",
    path: "Path",
    resolved: "Confirmed",
    object: "Object",
    health: "Health",
    message: "Message",
    revision: "Revision",
    outcome: "Outcome",
    planned: "Planned",
    took: "Took",
    now: "Now",
    after: "After",
    action: "Action",
    labels: "Labels",
  },

  // A service, a cluster.
  conditions: "Conditions",
  head: "default branch",

  // A commit.
  commitOf: (commit: string, repository: string) => (repository === "" ? commit : `${commit} of ${repository}`),

  // Who may do what.
  show: "Show",
  clear: "Clear",
  quoted: (words: string) => `“${words}”`,

  // What a person does.
  typeFirst: (what: string) => `Type ${what} to go on`,
  why: "Reason (optional)",
  whyRequired: "Reason",
  whyHelp: "The hub keeps it with the record of this change, such as a ticket.",
  rightsLoading: "The hub has not said yet whether you may do this.",
  mayNot: (verb: string, resource: string) => `No binding lets you ${verb} ${resource} here.`,
  hubSays: (reason: string) => `The hub says: ${reason}`,
  notDone: "The hub has not answered, so it is not known whether this was done",
  notDoneAdvice: "Look at the page once it is live again, before you repeat it.",
  syncAsked: "Sync requested. Its agent carries it out.",
  syncWithOld: (reason: string, message: string) =>
    `Sync requested with the last known content, because its repositories could not be fetched: ${reason} ${message}`,
  pause: "Pause",
  pausedNow: "Paused.",
  resume: "Resume",
  resumedNow: "Resumed. What has changed in the meantime is applied now.",
  unchanged: "Nothing has changed.",
  oldWord: "The cluster is not connected. This is its last word, and may be out of date.",
  health: {
    0: "Not observed",
    1: "Healthy",
    2: "Progressing",
    3: "Degraded",
    4: "Terminating",
    5: "Missing",
  } as Record<number, string>,
  size,
  /** A span of a spec, in the units that people write. */
  span: (seconds: number) =>
    [
      [Math.floor(seconds / 86400), "d"],
      [Math.floor((seconds % 86400) / 3600), "h"],
      [Math.floor((seconds % 3600) / 60), "min"],
      [Math.round(seconds % 60), "s"],
    ]
      .filter(([n]) => n !== 0)
      .map(([n, unit]) => `${n} ${unit}`)
      .join(" ") || "0 s",
  seconds: (n: number) => `${number(n < 10 ? Math.round(n * 10) / 10 : Math.round(n))} s`,

  lineCut: (left: number) => `… and ${count(left, "character", "characters")} more`,

  // The page of parts.
  partsTitle: "Parts",
};
