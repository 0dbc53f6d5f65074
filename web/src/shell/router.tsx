// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  Link,
  type RouterHistory,
} from "@tanstack/react-router";
import { useEffect } from "react";
import { useHub } from "../hub/hub.ts";
import { Button } from "../parts/button.tsx";
import { GoneError } from "../parts/gone.ts";
import { Empty } from "../parts/states.tsx";
import { text } from "../text/en.ts";
import { lazyRouteComponent } from "./lazy.ts";
import { Shell, useTitle } from "./shell.tsx";
import { useReload } from "./upgrade.tsx";

// The addresses of the UI. The URL is the state, so each search parameter is checked here: what does not belong, or has
// another form, is as if it were not there.

const asText = (value: unknown, most = 4096): string | undefined => {
  // The router reads a value that looks like a number as one.
  const read = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
  return typeof read === "string" && read !== "" && read.length <= most ? read : undefined;
};

/** Search of a list. */
export interface ListSearch {
  filter?: string;
  phase?: string;
  order?: string;
}

const orders = /^-?(name|since|severity|age|cluster)$/;

export function listSearch(raw: Record<string, unknown>): ListSearch {
  const filter = asText(raw.filter);
  const phase = asText(raw.phase, 256);
  const order = asText(raw.order);
  return {
    ...(filter && { filter }),
    ...(phase && /^[A-Z_]+(,[A-Z_]+)*$/.test(phase) && { phase }),
    ...(order && orders.test(order) && { order }),
  };
}

const serviceTabs = ["objects", "logs", "events", "diff", "config", "metrics", "revisions"] as const;

export type ServiceTab = (typeof serviceTabs)[number];

/** Search of a service's page: its tab, and what that shows. */
export interface ServiceSearch {
  tab?: ServiceTab;
  /** Of the objects: without one they are an outline. */
  view?: "graph";
  /** Whether the panel Why is open, if the person has chosen that. */
  why?: boolean;
  /** Of the logs. */
  pod?: string;
  container?: string;
  find?: string;
  regexp?: boolean;
  /** Of the logs and of the charts: how many seconds back. */
  since?: number;
  previous?: boolean;
  /** Of the events: only warnings. */
  warnings?: boolean;
  /** Of the differences: the object that is open, and whether only what others manage is shown. */
  object?: string;
  others?: boolean;
  /** Of the differences: the ref with which the cluster is compared in place of what the service follows. */
  ref?: string;
  /** The repository of that ref, for a service with several. */
  repository?: string;
}

const nameForm = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;

/** Returns what the logs of an address choose and look for, whatever they are of. */
function logSearch(raw: Record<string, unknown>): Omit<KubeObjectSearch, "tab"> {
  const container = asText(raw.container, 253);
  const find = asText(raw.find, 300);
  return {
    ...(container && nameForm.test(container) && { container }),
    ...(find && { find }),
    ...(raw.regexp === true && { regexp: true }),
    ...sinceOf(raw),
    ...(raw.previous === true && { previous: true }),
  };
}

function sinceOf(raw: Record<string, unknown>): { since?: number } {
  const since = Number(raw.since);
  return Number.isInteger(since) && since > 0 && since <= 7 * 86400 ? { since } : {};
}

export function serviceSearch(raw: Record<string, unknown>): ServiceSearch {
  const tab = serviceTabs.find((each) => each === raw.tab);
  const pod = asText(raw.pod, 253);
  const object = asText(raw.object, 800);
  const ref = asText(raw.ref, 256)?.trim();
  const repository = asText(raw.repository, 128);
  const isLogs = tab === "logs";
  const isDiff = tab === "diff";
  return {
    ...(tab && { tab }),
    ...(typeof raw.why === "boolean" && { why: raw.why }),
    ...(tab === "objects" && raw.view === "graph" && { view: "graph" as const }),
    ...(isLogs && pod && nameForm.test(pod) && { pod }),
    ...(isLogs && logSearch(raw)),
    ...(tab === "metrics" && sinceOf(raw)),
    ...(tab === "events" && raw.warnings === true && { warnings: true }),
    ...(isDiff && object && { object }),
    ...(isDiff && raw.others === true && { others: true }),
    ...(isDiff && ref && { ref }),
    ...(isDiff && ref && repository && { repository }),
  };
}

export interface ClustersSearch extends ListSearch {
  /** Without one, the page has the list alone. */
  view?: "map";
  /** The label by which the map is grouped. */
  by?: string;
}

export function clustersSearch(raw: Record<string, unknown>): ClustersSearch {
  const by = asText(raw.by, 317);
  const isMap = raw.view === "map";
  return {
    ...listSearch(raw),
    ...(isMap && { view: "map" }),
    ...(isMap && by && /^[\w./-]+$/.test(by) && { by }),
  };
}

/** Search of a list whose order is not for people to choose. */
export const filterSearch = (raw: Record<string, unknown>): { filter?: string } => {
  const filter = asText(raw.filter);
  return filter ? { filter } : {};
};

export interface RolloutSearch {
  /** The rollout among those of the policy. Without one it is the latest. */
  number?: number;
}

export function rolloutSearch(raw: Record<string, unknown>): RolloutSearch {
  const number = Number(raw.number);
  return Number.isSafeInteger(number) && number > 0 ? { number } : {};
}

/** PageSearch is a page of a list that the hub returns in pages. Without a token it is the first. */
export interface PageSearch {
  after?: string;
}

export function pageSearch(raw: Record<string, unknown>): PageSearch {
  const after = asText(raw.after, 1024);
  return after ? { after } : {};
}

const root = createRootRoute({ component: Shell, notFoundComponent: NoSuchPage, errorComponent: Broken });

const problems = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyRouteComponent(() => import("../pages/problems/page.tsx"), "ProblemsPage"),
});

const servicesRoot = createRoute({ getParentRoute: () => root, path: "/services" });

const services = createRoute({
  getParentRoute: () => servicesRoot,
  path: "/",
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import("../pages/services/page.tsx"), "ServicesPage"),
});

const clustersRoot = createRoute({ getParentRoute: () => root, path: "/clusters" });

const clusters = createRoute({
  getParentRoute: () => clustersRoot,
  path: "/",
  validateSearch: clustersSearch,
  component: lazyRouteComponent(() => import("../pages/clusters/page.tsx"), "ClustersPage"),
});

const repositoriesRoot = createRoute({ getParentRoute: () => root, path: "/repositories" });

const repositories = createRoute({
  getParentRoute: () => repositoriesRoot,
  path: "/",
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import("../pages/repositories/page.tsx"), "RepositoriesPage"),
});

const service = createRoute({
  getParentRoute: () => servicesRoot,
  path: "$",
  validateSearch: serviceSearch,
  component: lazyRouteComponent(() => import("../pages/service/page.tsx"), "ServicePage"),
});

/** Search of a cluster's page: its list of services, and whether it shows what its nodes use. */
export interface ClusterSearch extends ListSearch {
  nodes?: boolean;
}

export const clusterSearch = (raw: Record<string, unknown>): ClusterSearch => ({
  ...listSearch(raw),
  ...(raw.nodes === true && { nodes: true }),
});

const cluster = createRoute({
  getParentRoute: () => clustersRoot,
  path: "$",
  validateSearch: clusterSearch,
  component: lazyRouteComponent(() => import("../pages/cluster/page.tsx"), "ClusterPage"),
});

/** Search of a repository's page: its list of services, and the Git host of the webhook that is being set up. */
export interface RepositorySearch extends ListSearch {
  webhook?: string;
}

export function repositorySearch(raw: Record<string, unknown>): RepositorySearch {
  const webhook = asText(raw.webhook, 32);
  return { ...listSearch(raw), ...(webhook && { webhook }) };
}

const repository = createRoute({
  getParentRoute: () => repositoriesRoot,
  path: "$",
  validateSearch: repositorySearch,
  component: lazyRouteComponent(() => import("../pages/repository/page.tsx"), "RepositoryPage"),
});

const commit = createRoute({
  getParentRoute: () => root,
  path: "/commits/$",
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import("../pages/commit/page.tsx"), "CommitPage"),
});

/** Search of the audit log. */
export interface AuditSearch {
  by?: string;
  kind?: string;
  name?: string;
  cluster?: string;
  verb?: string;
  outcome?: string;
  since?: string;
}

/** Search of the question who may do what. */
export interface AccessSearch {
  cluster?: string;
  verb?: string;
  resource?: string;
  namespace?: string;
  user?: string;
}

/** Returns the parameters of these names that are texts. */
function texts<Name extends string>(
  raw: Record<string, unknown>,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const written = asText(raw[name], 256);
    if (written) found[name] = written;
  }
  return found;
}

export function auditSearch(raw: Record<string, unknown>): AuditSearch {
  const since = asText(raw.since, 3);
  return {
    ...texts(raw, ["by", "kind", "name", "cluster", "verb", "outcome"]),
    ...(since && /^(1h|24h|7d|30d)$/.test(since) && { since }),
  };
}

export const accessSearch = (raw: Record<string, unknown>): AccessSearch =>
  texts(raw, ["cluster", "verb", "resource", "namespace", "user"]);

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import("../pages/audit/page.tsx"), "AuditPage"),
});

const access = createRoute({
  getParentRoute: () => root,
  path: "/access",
  validateSearch: accessSearch,
  component: lazyRouteComponent(() => import("../pages/access/page.tsx"), "AccessPage"),
});

const me = createRoute({
  getParentRoute: () => root,
  path: "/me",
  component: lazyRouteComponent(() => import("../pages/me/page.tsx"), "MePage"),
});

const parts = createRoute({
  getParentRoute: () => root,
  path: "/parts",
  component: lazyRouteComponent(() => import("../pages/parts/page.tsx"), "PartsPage"),
});

const rolloutsRoot = createRoute({ getParentRoute: () => root, path: "/rollouts" });

const rollouts = createRoute({
  getParentRoute: () => rolloutsRoot,
  path: "/",
  validateSearch: filterSearch,
  component: lazyRouteComponent(() => import("../pages/rollouts/page.tsx"), "RolloutsPage"),
});

const rollout = createRoute({
  getParentRoute: () => rolloutsRoot,
  path: "$",
  validateSearch: rolloutSearch,
  component: lazyRouteComponent(() => import("../pages/rollout/page.tsx"), "RolloutPage"),
});

const globalServicesRoot = createRoute({ getParentRoute: () => root, path: "/global-services" });

const globalServices = createRoute({
  getParentRoute: () => globalServicesRoot,
  path: "/",
  validateSearch: filterSearch,
  component: lazyRouteComponent(() => import("../pages/global-services/page.tsx"), "GlobalServicesPage"),
});

const globalService = createRoute({
  getParentRoute: () => globalServicesRoot,
  path: "$",
  validateSearch: pageSearch,
  component: lazyRouteComponent(() => import("../pages/global-service/page.tsx"), "GlobalServicePage"),
});

const fleetSourcesRoot = createRoute({ getParentRoute: () => root, path: "/fleet-sources" });

const fleetSources = createRoute({
  getParentRoute: () => fleetSourcesRoot,
  path: "/",
  validateSearch: filterSearch,
  component: lazyRouteComponent(() => import("../pages/fleet-sources/page.tsx"), "FleetSourcesPage"),
});

const fleetSource = createRoute({
  getParentRoute: () => fleetSourcesRoot,
  path: "$",
  validateSearch: pageSearch,
  component: lazyRouteComponent(() => import("../pages/fleet-source/page.tsx"), "FleetSourcePage"),
});

const imagePoliciesRoot = createRoute({ getParentRoute: () => root, path: "/image-policies" });

const imagePolicies = createRoute({
  getParentRoute: () => imagePoliciesRoot,
  path: "/",
  validateSearch: filterSearch,
  component: lazyRouteComponent(() => import("../pages/image-policies/page.tsx"), "ImagePoliciesPage"),
});

const imagePolicy = createRoute({
  getParentRoute: () => imagePoliciesRoot,
  path: "$",
  component: lazyRouteComponent(() => import("../pages/image-policy/page.tsx"), "ImagePolicyPage"),
});

const projectsRoot = createRoute({ getParentRoute: () => root, path: "/projects" });

const projects = createRoute({
  getParentRoute: () => projectsRoot,
  path: "/",
  validateSearch: filterSearch,
  component: lazyRouteComponent(() => import("../pages/projects/page.tsx"), "ProjectsPage"),
});

const project = createRoute({
  getParentRoute: () => projectsRoot,
  path: "$",
  component: lazyRouteComponent(() => import("../pages/project/page.tsx"), "ProjectPage"),
});

/** Search of the configuration: what it shows, and its filter. */
export interface ConfigurationSearch {
  filter?: string;
  /** Without it, the page shows the sets. */
  show?: "backends";
}

export const configurationSearch = (raw: Record<string, unknown>): ConfigurationSearch => ({
  ...filterSearch(raw),
  ...(raw.show === "backends" && { show: "backends" }),
});

const configurationRoot = createRoute({ getParentRoute: () => root, path: "/configuration" });

const configuration = createRoute({
  getParentRoute: () => configurationRoot,
  path: "/",
  validateSearch: configurationSearch,
  component: lazyRouteComponent(() => import("../pages/configuration/page.tsx"), "ConfigurationPage"),
});

const configSet = createRoute({
  getParentRoute: () => configurationRoot,
  path: "sets/$",
  component: lazyRouteComponent(() => import("../pages/config-set/page.tsx"), "ConfigSetPage"),
});

const configBackend = createRoute({
  getParentRoute: () => configurationRoot,
  path: "backends/$",
  component: lazyRouteComponent(() => import("../pages/config-backend/page.tsx"), "ConfigBackendPage"),
});

/** Search of a cluster's resources: a kind, as kubectl names it, and which of its objects. */
export interface ResourcesSearch {
  kind?: string;
  /** Of the kinds. */
  filter?: string;
  namespace?: string;
  /** Selectors, as the API takes them. */
  labels?: string;
  fields?: string;
  /** A part of the name. */
  name?: string;
  /** The title of a column, with "-" for the other way. */
  order?: string;
}

export function resourcesSearch(raw: Record<string, unknown>): ResourcesSearch {
  const kind = asText(raw.kind, 512);
  const namespace = asText(raw.namespace, 63);
  if (!kind || !nameForm.test(kind)) {
    return { ...texts(raw, ["filter"]), ...(namespace && nameForm.test(namespace) && { namespace }) };
  }
  return {
    kind,
    ...texts(raw, ["labels", "fields", "name", "order"]),
    ...(namespace && nameForm.test(namespace) && { namespace }),
  };
}

const objectTabs = ["logs", "events", "yaml"] as const;

/** Search of an object's page: its tab. Without one it is what the object is. */
export interface KubeObjectSearch {
  tab?: (typeof objectTabs)[number];
  /** Of the logs of a pod. */
  container?: string;
  find?: string;
  regexp?: boolean;
  since?: number;
  previous?: boolean;
}

export function kubeObjectSearch(raw: Record<string, unknown>): KubeObjectSearch {
  const tab = objectTabs.find((each) => each === raw.tab);
  return { ...(tab && { tab }), ...(tab === "logs" && logSearch(raw)) };
}

const resources = createRoute({
  getParentRoute: () => clustersRoot,
  path: "$cluster/resources",
  validateSearch: resourcesSearch,
  component: lazyRouteComponent(() => import("../pages/resources/page.tsx"), "ResourcesPage"),
});

const kubeObject = createRoute({
  getParentRoute: () => clustersRoot,
  path: "$cluster/resources/$group/$version/$plural/$namespace/$object",
  validateSearch: kubeObjectSearch,
  component: lazyRouteComponent(() => import("../pages/object/page.tsx"), "ObjectPage"),
});

/** Search of a terminal: where it is, and its program. An address names a shell and no other program. */
export interface TerminalSearch {
  namespace?: string;
  pod?: string;
  container?: string;
  command?: "sh" | "bash";
}

export function terminalSearch(raw: Record<string, unknown>): TerminalSearch {
  const found = texts(raw, ["namespace", "pod", "container"]);
  const named = Object.entries(found).filter(([, name]) => nameForm.test(name));
  return {
    ...Object.fromEntries(named),
    ...((raw.command === "sh" || raw.command === "bash") && { command: raw.command }),
  };
}

const terminal = createRoute({
  getParentRoute: () => root,
  path: "/terminal/$",
  validateSearch: terminalSearch,
  component: lazyRouteComponent(() => import("../pages/terminal/page.tsx"), "TerminalPage"),
});

/** Search of the recordings of terminals. */
export interface RecordingsSearch {
  by?: string;
  cluster?: string;
  since?: string;
}

export const recordingsSearch = (raw: Record<string, unknown>): RecordingsSearch => {
  const { by, cluster, since } = auditSearch(raw);
  return { ...(by && { by }), ...(cluster && { cluster }), ...(since && { since }) };
};

/** Search of a recording: where it stands, and how it is played. */
export interface RecordingSearch {
  /** Seconds of the session. */
  at?: number;
  find?: string;
  speed?: 2 | 4 | 8;
  /** Idle times are played as long as they were. */
  idle?: true;
}

export function recordingSearch(raw: Record<string, unknown>): RecordingSearch {
  const at = Number(raw.at);
  const find = asText(raw.find, 300);
  const speed = ([2, 4, 8] as const).find((each) => each === raw.speed);
  return {
    ...(at > 0 && at <= 7 * 86400 && { at }),
    ...(find && { find }),
    ...(speed && { speed }),
    ...(raw.idle === true && { idle: true }),
  };
}

const recordingsRoot = createRoute({ getParentRoute: () => root, path: "/recordings" });

const recordings = createRoute({
  getParentRoute: () => recordingsRoot,
  path: "/",
  validateSearch: recordingsSearch,
  component: lazyRouteComponent(() => import("../pages/recordings/page.tsx"), "RecordingsPage"),
});

const recording = createRoute({
  getParentRoute: () => recordingsRoot,
  path: "$",
  validateSearch: recordingSearch,
  component: lazyRouteComponent(() => import("../pages/recording/page.tsx"), "RecordingPage"),
});

export const signInPath = "/sign-in";

/** Search of the resources of many clusters: as of one, and which clusters. Names go before a filter. */
export interface ManySearch extends ResourcesSearch {
  clusters?: string;
}

export const manySearch = (raw: Record<string, unknown>): ManySearch => {
  const clusters = asText(raw.clusters);
  return { ...resourcesSearch(raw), ...filterSearch(raw), ...(clusters && { clusters }) };
};

const many = createRoute({
  getParentRoute: () => root,
  path: "/resources",
  validateSearch: manySearch,
  component: lazyRouteComponent(() => import("../pages/many/page.tsx"), "ManyPage"),
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: signInPath,
  component: lazyRouteComponent(() => import("../pages/sign-in/page.tsx"), "SignInPage"),
});

const tree = root.addChildren([
  problems,
  servicesRoot.addChildren([services, service]),
  clustersRoot.addChildren([clusters, cluster, resources, kubeObject]),
  repositoriesRoot.addChildren([repositories, repository]),
  commit,
  audit,
  access,
  me,
  parts,
  signIn,
  rolloutsRoot.addChildren([rollouts, rollout]),
  globalServicesRoot.addChildren([globalServices, globalService]),
  fleetSourcesRoot.addChildren([fleetSources, fleetSource]),
  imagePoliciesRoot.addChildren([imagePolicies, imagePolicy]),
  projectsRoot.addChildren([projects, project]),
  configurationRoot.addChildren([configuration, configSet, configBackend]),
  terminal,
  recordingsRoot.addChildren([recordings, recording]),
  many,
]);

/** Returns the router of a page. Tests give a history in memory. */
export const makeRouter = (history?: RouterHistory) =>
  createRouter({
    routeTree: tree,
    basepath: "/ui",
    ...(history && { history }),
    // What no page has checked is not there.
    search: { strict: true },
    // NAME@CLUSTER reads as people write it.
    pathParamsAllowedCharacters: ["@"],
    defaultPreload: "intent",
    // A page that breaks leaves what is around it.
    defaultErrorComponent: Broken,
    scrollRestoration: false,
  });

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}

function NoSuchPage() {
  useTitle(text.noSuchPage);
  return (
    <Empty icon="search" title={text.noSuchPage} action={<Link to="/">{text.toProblems}</Link>}>
      <p>{text.noSuchPageBody}</p>
    </Empty>
  );
}

function Broken({ error }: ErrorComponentProps) {
  const { builds } = useHub();
  const { reload, question } = useReload();
  const isGone = error instanceof GoneError;
  useTitle(isGone ? text.pageGone : text.pageBroke);
  useEffect(() => {
    if (isGone) void builds.check();
  }, [builds, isGone]);
  return (
    <div role="alert">
      <Empty
        icon={isGone ? "offline" : "cross"}
        tone={isGone ? "idle" : "bad"}
        title={isGone ? text.pageGone : text.pageBroke}
        action={<Button onClick={reload}>{text.reload}</Button>}
      >
        <p>{isGone ? text.pageGoneBody : text.pageBrokeBody}</p>
        {!isGone && <code>{error instanceof Error ? error.message : String(error)}</code>}
      </Empty>
      {question}
    </div>
  );
}
