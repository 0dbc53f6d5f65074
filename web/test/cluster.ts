// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// A cluster's Kubernetes API in the page. Its answers have the form in which an API server of v1.36 gives them, behind
// the hub's tunnel, which adds the headers.

export interface FakePod {
  name: string;
  /** The ReplicaSet, or another owner. */
  owner: string;
  status?: string;
  ready?: string;
  restarts?: string;
  containers?: string[];
}

export interface FakeCluster {
  pods: FakePod[];
  /** Names of Deployments; each has one ReplicaSet of the name with "-7d4b9". */
  deployments: string[];
  events: object[];
  /** The log of a container, by "POD CONTAINER", and of the one before it by "POD CONTAINER previous". */
  logs: Record<string, string>;
  /** Is asked first, with the path and the query. What it returns is the answer. */
  before?: (url: URL, signal: AbortSignal) => Response | Promise<Response> | undefined;
}

const json = (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });

export const failure = (code: number, message: string, origin = "cluster", reason = ""): Response =>
  json(
    {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message,
      code,
      ...(origin !== "cluster" && { details: { causes: [{ reason, message }] } }),
    },
    code,
    { "Leat-Error-Origin": origin, ...(reason && { "Leat-Error-Reason": reason }) },
  );

export const offline = () => failure(503, 'the agent of cluster "berlin" is not connected', "tunnel", "AGENT_OFFLINE");

const uid = (kind: string, name: string) => `uid-${kind}-${name}`;

function table(columns: string[], rows: { cells: unknown[]; metadata: object }[], limit: number) {
  const more = rows.length - limit;
  return json({
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: more > 0 ? { continue: "x", remainingItemCount: more } : {},
    columnDefinitions: columns.map((name) => ({ name, type: "string", format: "", priority: 0 })),
    rows: rows.slice(0, limit).map(({ cells, metadata }) => ({
      cells,
      object: { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata },
    })),
  });
}

const created = "2026-11-28T11:17:42Z";

/** Returns the answers of a cluster, as makeHub takes them. */
export function clusterApi(change: Partial<FakeCluster> = {}) {
  const cluster: FakeCluster = { pods: [], deployments: [], events: [], logs: {}, ...change };
  const kube = (path: string, signal: AbortSignal, accept: string): Response | Promise<Response> => {
    const url = new URL(path, "http://cluster.invalid");
    const own = cluster.before?.(url, signal);
    if (own) return own;
    const limit = Number(url.searchParams.get("limit") ?? 500);
    const [, resource = "", name = "", sub = ""] = /\/namespaces\/[^/]+\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(
      url.pathname,
    ) ?? ["", "", "", ""];
    const app = url.searchParams.get("labelSelector")?.replace("app=", "");
    if (resource === "deployments" && cluster.deployments.includes(name)) {
      return json({
        kind: "Deployment",
        metadata: { name, namespace: "shop", uid: uid("Deployment", name) },
        spec: { selector: { matchLabels: { app: name } } },
      });
    }
    if (resource === "replicasets") {
      const rows = cluster.deployments
        .filter((each) => !app || each === app)
        .map((deployment) => {
          const set = `${deployment}-7d4b9`;
          const pods = cluster.pods.filter((pod) => pod.owner === set);
          const ready = pods.filter((pod) => /^(\d+)\/\1$/.test(pod.ready ?? "1/1")).length;
          return {
            cells: [set, pods.length, pods.length, ready, "5m"],
            metadata: {
              name: set,
              namespace: "shop",
              uid: uid("ReplicaSet", set),
              creationTimestamp: created,
              ownerReferences: [{ kind: "Deployment", name: deployment, uid: uid("Deployment", deployment) }],
            },
          };
        });
      return table(["Name", "Desired", "Current", "Ready", "Age"], rows, limit);
    }
    // A list that is no Table has whole pods.
    if (resource === "pods" && name === "" && !accept.includes("as=Table")) {
      const items = cluster.pods.filter((pod) => !app || pod.owner.startsWith(`${app}-`)).map(podObject);
      return json({ kind: "PodList", metadata: {}, items });
    }
    if (resource === "pods" && name === "") {
      const rows = cluster.pods
        .filter((pod) => !app || pod.owner.startsWith(`${app}-`))
        .map((pod) => ({
          cells: [
            pod.name,
            pod.ready ?? "1/1",
            pod.status ?? "Running",
            pod.restarts ?? "0",
            "5m",
            "10.0.0.1",
            "node-0",
          ],
          metadata: {
            name: pod.name,
            namespace: "shop",
            uid: uid("Pod", pod.name),
            creationTimestamp: created,
            ownerReferences: [{ kind: "ReplicaSet", name: pod.owner, uid: uid("ReplicaSet", pod.owner) }],
          },
        }));
      return table(["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"], rows, limit);
    }
    const pod = cluster.pods.find((each) => each.name === name);
    if (resource === "pods" && pod && sub === "") return json(podObject(pod));
    if (resource === "pods" && pod && sub === "log") {
      const container = url.searchParams.get("container") ?? "";
      const suffix = url.searchParams.get("previous") === "true" ? " previous" : "";
      const log = cluster.logs[`${name} ${container}${suffix}`];
      return log === undefined
        ? failure(400, `previous terminated container "${container}" in pod "${name}" not found`)
        : new Response(log, { headers: { "Content-Type": "text/plain" } });
    }
    if (resource === "events") return json({ kind: "EventList", metadata: {}, items: cluster.events });
    return failure(404, `${resource} "${name}" not found`);
  };
  return { kube, cluster };
}

const podObject = (pod: FakePod) => ({
  kind: "Pod",
  metadata: {
    name: pod.name,
    namespace: "shop",
    uid: uid("Pod", pod.name),
    creationTimestamp: created,
    ownerReferences: [{ kind: "ReplicaSet", name: pod.owner, uid: uid("ReplicaSet", pod.owner) }],
  },
  spec: { containers: (pod.containers ?? ["web"]).map((name) => ({ name })) },
  status: {
    phase: "Running",
    containerStatuses: (pod.containers ?? ["web"]).map((name) => {
      const count = Number.parseInt(pod.restarts ?? "0", 10);
      const isWaiting = pod.status !== undefined && pod.status !== "Running";
      return {
        name,
        restartCount: count,
        ready: !isWaiting,
        state: isWaiting ? { waiting: { reason: pod.status } } : { running: { startedAt: created } },
        lastState:
          count > 0
            ? { terminated: { exitCode: 137, reason: "OOMKilled", finishedAt: created, startedAt: created } }
            : {},
      };
    }),
  },
});

/** Returns an event of Kubernetes about a pod. */
export const event = (name: string, reason: string, message: string, change: object = {}) => ({
  metadata: { name: `${name}.${reason}`, namespace: "shop", uid: `uid-event-${name}-${reason}` },
  involvedObject: { kind: "Pod", namespace: "shop", name, uid: uid("Pod", name) },
  reason,
  message,
  type: "Warning",
  count: 3,
  firstTimestamp: null,
  lastTimestamp: created,
  eventTime: null,
  ...change,
});
