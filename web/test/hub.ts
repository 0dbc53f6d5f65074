// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { AgentService } from "../src/gen/leat/agent/v1/agent_pb";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { AccessRequestService } from "../src/gen/leat/fleet/v1/access_request_pb";
import { type Document, DocumentSchema } from "../src/gen/leat/fleet/v1/document_pb";
import { FleetService } from "../src/gen/leat/fleet/v1/fleet_pb";
import { FleetSourceService } from "../src/gen/leat/fleet/v1/fleet_source_pb";
import { GlobalServiceService } from "../src/gen/leat/fleet/v1/global_service_pb";
import { ImagePolicyService } from "../src/gen/leat/fleet/v1/image_policy_pb";
import {
  type CommitArrivalSchema,
  type FleetQuery,
  type FleetRow,
  FleetRowSchema,
  type GetFleetStatusResponse,
  GetFleetStatusResponseSchema,
  ProblemSeverity,
  QueryService,
} from "../src/gen/leat/fleet/v1/query_pb";
import { RevisionOutcome } from "../src/gen/leat/fleet/v1/resources_pb";
import { RolloutService } from "../src/gen/leat/fleet/v1/rollout_pb";
import { SessionService } from "../src/gen/leat/fleet/v1/session_pb";
import { RepositoryPhase } from "../src/gen/leat/gitcache/v1/repository_pb";
import { TunnelService } from "../src/gen/leat/tunnel/v1/tunnel_pb";
import { ServicePhase } from "../src/gen/leat/type/v1/state_pb";
import { type Around, createHub, type Hub } from "../src/hub/hub.ts";
import { arrivalOf } from "./arrival.ts";

// A hub in the page, with a fleet that was invented. A test changes what it answers.

const minute = 60_000;
const start = Date.now();
export const ago = (minutes: number) => timestampFromMs(start - minutes * minute);

/** Returns an error as the hub sends it. */
export function refusal(code: Code, reason: string, message: string): ConnectError {
  const error = new ConnectError(message, code);
  const value = new BinaryWriter().tag(1, 2).string(reason).tag(2, 2).string("leat.dev").finish();
  error.details = [{ type: "google.rpc.ErrorInfo", value }];
  return error;
}

const clusterNames = [
  "berlin",
  "boston",
  "lisbon",
  "osaka",
  "quito",
  "shop/nairobi",
  "edge/frankfurt-airport-terminal-2",
];
const serviceNames = ["web", "cart", "checkout", "search", "payments", "ingress", "cert-manager"];

/** Returns the service with that number among any number of them. Every hundredth has failed. */
export function serviceRow(index: number): FleetRow {
  const cluster = clusterNames[index % clusterNames.length] as string;
  const name = `${serviceNames[index % serviceNames.length]}-${index}`;
  const base = {
    ref: `${name}@${cluster}`,
    name,
    cluster,
    namespace: "shop",
    phase: "HEALTHY",
    since: ago(30 + index),
    repositories: ["demo"],
    commits: ["4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e"],
    appliedCommits: ["4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e"],
    synced: true,
    total: 12,
    healthy: 12,
    can: ["sync", "pause", "rollback", "confirm"],
  };
  if (index % 100 === 3) {
    const problem = {
      reason: Reason.APPLY_REJECTED,
      message: "quota of namespace shop is used up: requests.cpu 20, used 20",
    };
    return create(FleetRowSchema, { ...base, ...problem, phase: "FAILED", healthy: 9, since: ago(9) });
  }
  if (index % 100 === 1) {
    const problem = { reason: Reason.AGENT_OFFLINE, message: "the cluster's agent is not connected" };
    return create(FleetRowSchema, { ...base, ...problem, phase: "HEALTHY", since: ago(130) });
  }
  if (index % 10 === 5) return create(FleetRowSchema, { ...base, phase: "PROGRESSING", healthy: 7, since: ago(1) });
  return create(FleetRowSchema, base);
}

export const clusterRow = (index: number): FleetRow =>
  create(FleetRowSchema, {
    ref: index < clusterNames.length ? (clusterNames[index] as string) : `edge/store-${index}`,
    name: clusterNames[index] ?? `store-${index}`,
    labels: { region: index % 2 ? "us" : "eu", stage: "prod" },
    phase: index === 1 ? "DISCONNECTED" : index === 5 ? "NOT_JOINED" : "CONNECTED",
    since: ago(12),
    total: 20,
    healthy: index === 1 ? 0 : 19,
    versions: ["v0.9.2"],
    kubernetesVersion: "v1.36.3",
    lastSeenAt: ago(index === 1 ? 130 : 0),
  });

export const repositoryRow = (index: number): FleetRow =>
  create(FleetRowSchema, {
    ref: index === 0 ? "demo" : `team-${index}`,
    name: index === 0 ? "demo" : `team-${index}`,
    phase: index === 2 ? "STALE" : "READY",
    since: ago(400),
    url: index === 1 ? "git@git.example.com:team/one.git" : `https://git.example.com/team/${index}.git`,
    ...(index === 2 && { reason: Reason.UPSTREAM_UNREACHABLE, message: "dial tcp 192.0.2.7:443: i/o timeout" }),
  });

const rowsOf: Record<string, (index: number) => FleetRow> = {
  Service: serviceRow,
  Cluster: clusterRow,
  Repository: repositoryRow,
};

export const fullStatus = (): GetFleetStatusResponse =>
  create(GetFleetStatusResponseSchema, {
    severity: ProblemSeverity.FAILED,
    omitted: 2,
    services: [
      { value: "HEALTHY", count: 9812 },
      { value: "PROGRESSING", count: 128 },
      { value: "FAILED", count: 48 },
      { value: "DEGRADED", count: 9 },
      { value: "PAUSED", count: 3 },
    ],
    clusters: [
      { value: "CONNECTED", count: 998 },
      { value: "DISCONNECTED", count: 1 },
      { value: "NOT_JOINED", count: 1 },
    ],
    repositories: [
      { value: "READY", count: 41 },
      { value: "STALE", count: 1 },
    ],
    problems: [
      {
        severity: ProblemSeverity.FAILED,
        kind: "Cluster",
        reason: Reason.AGENT_OFFLINE,
        message:
          "the cluster's agent is not connected; workloads keep running, and the status shown may be out of date",
        objects: 1,
        clusters: 1,
        services: 20,
        firstSince: ago(130),
        lastSince: ago(130),
        examples: ["boston"],
        filter: "phase=DISCONNECTED",
      },
      {
        severity: ProblemSeverity.FAILED,
        kind: "Service",
        reason: Reason.APPLY_REJECTED,
        message: "quota of namespace shop is used up: requests.cpu 20, used 20",
        repository: "demo",
        commit: "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e",
        objects: 48,
        clusters: 31,
        firstSince: ago(42),
        lastSince: ago(9),
        examples: ["cart@berlin", "cart@lisbon", "cart@osaka", "shop/cart@shop/nairobi", "cart@quito", "cart@cairo"],
        filter: "reason=APPLY_REJECTED",
      },
      {
        severity: ProblemSeverity.DEGRADED,
        kind: "Repository",
        reason: Reason.UPSTREAM_UNREACHABLE,
        message: "dial tcp 192.0.2.7:443: i/o timeout",
        objects: 1,
        firstSince: ago(400),
        examples: ["team-2"],
        filter: "reason=UPSTREAM_UNREACHABLE",
      },
      {
        severity: ProblemSeverity.WARNING,
        kind: "Service",
        reason: Reason.DRIFT_DETECTED,
        message: "others have changed 3 objects: Deployment web spec.replicas",
        objects: 2,
        clusters: 2,
        firstSince: ago(2000),
        examples: ["web@berlin", "web@osaka"],
        filter: "drifted=true",
      },
    ],
  });

const commit = "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e";

export const serviceDocument = (): Document =>
  create(DocumentSchema, {
    object: {
      case: "service",
      value: {
        metadata: { name: "cart", labels: { app: "cart" } },
        spec: {
          cluster: "berlin",
          namespace: "shop",
          sources: [
            { repository: "demo", ref: { selector: { case: "branch", value: "main" } }, path: "apps/cart" },
            { repository: "charts", ref: { selector: { case: "semver", value: "~1.4" } }, chart: "redis" },
          ],
        },
        status: {
          phase: ServicePhase.FAILED,
          problem: {
            reason: Reason.APPLY_REJECTED,
            message: "Deployment cart: quota of namespace shop is used up: requests.cpu 20, used 20",
            since: ago(9),
          },
          sources: [
            { snapshot: { commit, digest: "sha256:1" }, resolvedAt: ago(1) },
            {
              snapshot: { commit: "9".repeat(40), digest: "sha256:2", version: "1.4.7" },
              resolvedAt: ago(40),
              problem: { reason: Reason.UPSTREAM_UNREACHABLE, message: "dial tcp 192.0.2.7:443: i/o timeout" },
            },
          ],
          report: {
            counts: { total: 12, healthy: 9, failed: 1, progressing: 2 },
            appliedDigests: ["sha256:0", "sha256:2"],
            appliedAt: ago(130),
            objects: [
              {
                ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "cart" },
                health: 3,
                problem: { reason: Reason.APPLY_REJECTED, message: 'pods "cart-7d4b9" is forbidden: exceeded quota' },
              },
              { ref: { version: "v1", kind: "Pod", namespace: "shop", name: "cart-7d4b9-x2x4z" }, health: 2 },
            ],
            drift: [
              {
                ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "web" },
                fields: [{ path: "spec.replicas", old: "3", new: "5" }],
              },
            ],
          },
        },
      },
    },
  });

export const clusterDocument = (isConnected = true, agentSkew?: { newer: boolean; message: string }): Document =>
  create(DocumentSchema, {
    object: {
      case: "cluster",
      value: {
        metadata: { name: "berlin", labels: { region: "eu", stage: "prod" } },
        spec: { description: "The shop's cluster in Berlin." },
        status: {
          enrolled: true,
          connected: isConnected,
          lastSeenAt: ago(isConnected ? 0 : 130),
          services: 20,
          servicesHealthy: 19,
          ...(agentSkew && { agentSkew }),
          report: {
            agentVersion: "v0.9.2",
            kubernetesVersion: "v1.36.3",
            nodes: 12,
            overview: { nodes: { count: 12, ready: 11 } },
          },
        },
      },
    },
  });

export const repositoryDocument = (isStale = false): Document =>
  create(DocumentSchema, {
    object: {
      case: "repository",
      value: {
        metadata: { name: "demo" },
        spec: { url: "https://git.example.com/team/demo.git" },
        status: {
          phase: isStale ? RepositoryPhase.STALE : RepositoryPhase.READY,
          freshAt: ago(isStale ? 400 : 1),
          changedAt: ago(500),
          nextPollAt: ago(-2),
          defaultBranch: "refs/heads/main",
          refCount: 14,
          diskBytes: 48_300_000n,
          ...(isStale && {
            failures: 12,
            heldRefs: ["refs/heads/experiment"],
            notices: ["2 entries of the index cannot be used"],
            problem: {
              reason: Reason.UPSTREAM_UNREACHABLE,
              message: "dial tcp 192.0.2.7:443: i/o timeout",
              since: ago(400),
            },
          }),
        },
      },
    },
  });

const documents: Record<string, () => Document> = {
  Service: serviceDocument,
  Cluster: clusterDocument,
  Repository: repositoryDocument,
};

/** Sizes are how many objects of each kind there are. */
export interface Answers {
  sizes: Record<string, number>;
  /** How long a commit took to arrive at so many services, for queries that ask for it. */
  arrival: (all: number) => MessageInitShape<typeof CommitArrivalSchema> | undefined;
  status: () => GetFleetStatusResponse;
  /** Is asked before each call, and throws what the call fails with. */
  before: (call: string) => void | Promise<void>;
  queries: FleetQuery[];
  /** How many streams are open. */
  streams: number;
  /** Makes the stream of each list send its window again. */
  changeLists: () => void;
  fleet: Partial<ServiceImpl<typeof FleetService>>;
  rollouts: Partial<ServiceImpl<typeof RolloutService>>;
  globals: Partial<ServiceImpl<typeof GlobalServiceService>>;
  sources: Partial<ServiceImpl<typeof FleetSourceService>>;
  images: Partial<ServiceImpl<typeof ImagePolicyService>>;
  requests: Partial<ServiceImpl<typeof AccessRequestService>>;
  /** Returns the rows of a kind whose pages read documents, or undefined. */
  objects: (kind: string) => FleetRow[] | undefined;
  /** What the person may do with the objects of a page. */
  can: string[];
  sessions: Partial<ServiceImpl<typeof SessionService>>;
  /** What the browser has around the page. */
  around: Partial<Around>;
  /** The agents of all clusters, and their Kubernetes APIs: path and query, without /clusters/NAME. */
  agent: Partial<ServiceImpl<typeof AgentService>>;
  kube: (path: string, signal: AbortSignal, accept: string, init: RequestInit) => Response | Promise<Response>;
  tunnel: Partial<ServiceImpl<typeof TunnelService>>;
}

/** What pages ask for before they read. */
const pageReads = new Set([
  "get services/inventory",
  "get services/diff",
  "watch services/events",
  "list auditrecords",
  "list recordings",
  "get recordings",
]);

const never = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });

/** Returns a hub in the page, in which a person is signed in by a session unless a test changes that. */
export function makeHub(change: Partial<Answers> = {}): { hub: Hub; answers: Answers } {
  const answers: Answers = {
    sizes: { Service: 10_000, Cluster: 1000, Repository: 42 },
    arrival: arrivalOf,
    status: fullStatus,
    before: () => {},
    queries: [],
    streams: 0,
    changeLists: () => {},
    fleet: {},
    rollouts: {},
    globals: {},
    sources: {},
    images: {},
    requests: {},
    objects: () => undefined,
    can: ["sync", "pause", "rollback", "confirm", "control", "approve"],
    sessions: {},
    around: {},
    agent: {},
    kube: () => new Response("404 page not found", { status: 404 }),
    tunnel: {},
    ...change,
  };
  let changed = Promise.withResolvers<void>();
  answers.changeLists = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  /** Is a stream that is open until the page ends it. */
  async function* stream<T>(signal: AbortSignal, message: () => T, isList = false) {
    answers.streams += 1;
    try {
      while (!signal.aborted) {
        const next = isList ? changed.promise : never(signal);
        yield message();
        await Promise.race([never(signal), next]);
      }
    } finally {
      answers.streams -= 1;
    }
  }
  const windowOf = (query: FleetQuery) => {
    answers.queries.push(query);
    const own = answers.objects(query.kind);
    if (own) {
      const name = /^name="(.*)"$/.exec(query.filter)?.[1];
      const rows = own.filter((row) => (name ? row.name === name : !query.filter.includes("nothing")));
      return {
        rows: rows.slice(query.offset, query.offset + (query.size || 100)),
        total: rows.length,
        groups: [],
        arrival: undefined,
      };
    }
    const row = rowsOf[query.kind] ?? serviceRow;
    const all = answers.sizes[query.kind] ?? 0;
    const phases = /phase=([A-Z_,]+)/.exec(query.filter)?.[1]?.split(",");
    const isNone = query.filter.includes("nothing");
    const step = phases?.includes("FAILED") ? 100 : 1;
    const total = isNone ? 0 : Math.floor(all / step);
    const size = Math.min(query.size || 100, Math.max(0, total - query.offset));
    const rows = Array.from({ length: size }, (_, index) => row((query.offset + index) * step + (step > 1 ? 3 : 0)));
    const counts = { FAILED: Math.ceil(all / 100), PROGRESSING: Math.floor(all / 10) } as Record<string, number>;
    const isService = query.kind === "Service";
    const others = isService ? (counts.FAILED ?? 0) + (counts.PROGRESSING ?? 0) : 0;
    const groups = Object.entries({ HEALTHY: all - others, ...(isService && counts) });
    return {
      rows,
      total,
      arrival: query.arrivalOf && all > 0 ? answers.arrival(all) : undefined,
      groups: [
        { field: "phase", groups: isNone ? [] : groups.map(([value, count]) => ({ value, count })) },
        { field: "applied", groups: isNone ? [] : [{ value: commit, count: all - 28 }] },
        { field: "desired", groups: isNone ? [] : [{ value: commit, count: all - 12 }] },
        { field: "reason", groups: [{ value: "APPLY_REJECTED", count: Math.ceil(all / 100) }] },
      ],
    };
  };
  const token = () => ({ accessToken: "a.b.c", expireTime: timestampFromMs(Date.now() + 300_000) });
  const hub = createHub(
    (interceptors) =>
      createRouterTransport(
        ({ service }) => {
          service(QueryService, {
            async queryFleet({ query }) {
              await answers.before("queryFleet");
              // A page asks for the rights on its own object by its name.
              const name = /^name="(.*)"$/.exec(query?.filter ?? "")?.[1];
              if (name && !answers.objects(query?.kind ?? "")) {
                const ref = query?.cluster ? `${name}@${query.cluster}` : name;
                return { total: 1, rows: [{ ref, name, can: answers.can }] };
              }
              return windowOf(query as FleetQuery);
            },
            async *watchQuery({ query }, { signal }) {
              await answers.before("watchQuery");
              yield* stream(
                signal,
                () => {
                  const { rows, total, groups, arrival } = windowOf(query as FleetQuery);
                  const window = rows.map((row) => row.ref);
                  return { rows, window, hasWindow: true, total, groups, arrival, hasCounts: true };
                },
                true,
              );
            },
            async getFleetStatus() {
              await answers.before("getFleetStatus");
              return answers.status();
            },
          });
          service(FleetService, {
            createAccessToken: token,
            getServerInfo: () => ({
              version: "v0.9.2",
              subject: "user:ada",
              groups: ["leat:admins"],
              webhookUrl: "https://leat.example.com/webhooks",
            }),
            async get({ kind, name }) {
              await answers.before("get");
              return {
                document: documents[kind]?.() ?? answers.objects(kind)?.find((row) => row.ref === name)?.document,
              };
            },
            async *watch({ kind }, { signal }) {
              await answers.before("watch");
              yield* stream(signal, () => ({ document: documents[kind]?.() }));
            },
            list: () => ({}),
            syncService: () => ({ syncRequest: "1" }),
            syncRepository: () => ({}),
            listAuditRecords: () => ({}),
            listWebhookDeliveries: () => ({}),
            apply: ({ documents }) => ({ outcomes: documents.map((document) => ({ document })) }),
            reviewAccess: ({ attributes }) =>
              pageReads.has(`${attributes?.verb} ${attributes?.resource}`) ||
              (attributes?.verb === "list" && attributes.apiGroup !== "leat.dev")
                ? { allowed: true }
                : { reason: "no binding of ada covers berlin" },
            listServiceCommits: ({ commit: id }) => ({
              commits: [
                {
                  repository: "shop",
                  id: id || commit,
                  authorName: "Grace",
                  commitTime: ago(12),
                  subject: "Give the cart two replicas",
                },
              ],
            }),
            listRevisions: () => ({
              revisions: [
                {
                  number: 7n,
                  outcome: RevisionOutcome.FAILED,
                  commits: [commit],
                  plannedAt: ago(9),
                  problem: { reason: Reason.APPLY_REJECTED, message: "exceeded quota" },
                },
                {
                  number: 6n,
                  outcome: RevisionOutcome.HEALTHY,
                  commits: ["8".repeat(40)],
                  plannedAt: ago(130),
                  healthyAt: ago(129),
                },
                { number: 5n, outcome: RevisionOutcome.SUPERSEDED, commits: ["7".repeat(40)], plannedAt: ago(131) },
              ],
            }),
            ...answers.fleet,
          });
          service(RolloutService, {
            rollbackService: ({ revision }) => ({ revision }),
            releaseService: () => ({}),
            ...answers.rollouts,
          });
          service(GlobalServiceService, answers.globals);
          service(FleetSourceService, answers.sources);
          service(ImagePolicyService, answers.images);
          service(AccessRequestService, answers.requests);
          service(AgentService, answers.agent);
          service(TunnelService, { getRecordingRules: () => ({}), ...answers.tunnel });
          service(SessionService, {
            createAccessToken: () => ({ ...token(), session: { id: "s1", person: "ada", groups: ["leat:admins"] } }),
            getSignInMethods: () => ({
              methods: [{ name: "corp", title: "Example Corp" }],
              loginUrl: "https://leat.example.com/login",
            }),
            signIn: () => ({}),
            signOut: () => ({}),
            ...answers.sessions,
          });
        },
        { transport: { interceptors } },
      ),
    {
      request: async (url, init) =>
        answers.kube(
          url.replace(/^\/clusters\/[^/]+/, ""),
          init.signal as AbortSignal,
          new Headers(init.headers).get("Accept") ?? "",
          init,
        ),
      ...answers.around,
    },
  );
  return { hub, answers };
}

/** Returns the answers to a browser without a session, until it signs in. */
export const signedOut = (person = "ada") => {
  let isIn = false;
  return {
    signIn: () => {
      isIn = true;
      return {};
    },
    createAccessToken: () => {
      if (isIn) return { accessToken: "a.b.c", session: { id: "api.1", person, groups: ["leat:admins"] } };
      throw refusal(Code.InvalidArgument, "FIELD_INVALID", "session_token is required outside of the hub's own pages");
    },
  } satisfies Partial<ServiceImpl<typeof SessionService>>;
};
