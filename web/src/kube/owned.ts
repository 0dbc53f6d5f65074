// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Health } from "../gen/leat/type/v1/state_pb";
import type { Hub } from "../hub/hub.ts";
import { polled, type Source } from "../hub/live.ts";
import { readJson } from "./api.ts";
import { resourcePath } from "./path.ts";
import { type Ref, workloadOf } from "./refs.ts";
import { type Row, readTable } from "./table.ts";

// What a workload owns: its pods, and the ReplicaSets between them. The agent's inventory ends at what the service
// applies, so this comes from the cluster's API, in the person's name.

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

const operators: Record<string, (key: string, values: string) => string> = {
  In: (key, values) => `${key} in (${values})`,
  NotIn: (key, values) => `${key} notin (${values})`,
  Exists: (key) => key,
  DoesNotExist: (key) => `!${key}`,
};

/** Returns a selector as the API's parameter, or "" for one that this version cannot write: it must not select all. */
export function selectorText({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string {
  const terms = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
  for (const { key, operator, values = [] } of matchExpressions) {
    const write = operators[operator];
    if (!write) return "";
    terms.push(write(key, values.join(",")));
  }
  return terms.join(",");
}

/** Owned is a pod or a ReplicaSet. */
export interface Owned extends Ref {
  health: Health;
  /** The word that kubectl prints for its state. */
  word: string;
  /** How many containers, or pods, are ready of how many, as in "1/2". */
  ready: string;
  restarts: string;
  node: string;
  createdAt: number | undefined;
}

/** Family is what a workload owns. */
export interface Family {
  replicaSets: readonly (Owned & { pods: readonly Owned[] })[];
  /** The pods that are not of one of those ReplicaSets. */
  pods: readonly Owned[];
  /** How many pods there are beyond those that were read; -1: an unknown number. */
  more: number;
}

const moving = ["Pending", "ContainerCreating", "PodInitializing", "Terminating", "SchedulingGated", "NotReady"];
const done = ["Completed", "Succeeded"];

/** Returns how a pod is, by the word and the count that kubectl prints. Every other word is a failure. */
export function podHealth(word: string, ready: string): Health {
  if (word === "Terminating") return Health.TERMINATING;
  if (done.includes(word)) return Health.HEALTHY;
  if (word === "Running") {
    const [now, wanted] = ready.split("/");
    return now === wanted ? Health.HEALTHY : Health.PROGRESSING;
  }
  // Init:0/2 waits for the first of two init containers, and Init:Error does not.
  return moving.includes(word) || /^Init:\d+\/\d+$/.test(word) ? Health.PROGRESSING : Health.DEGRADED;
}

const base = (row: Row, group: string, kind: string) => ({
  group,
  kind,
  namespace: row.namespace,
  name: row.name,
  restarts: (row.cells.Restarts ?? "").replace(/^0$/, ""),
  node: (row.cells.Node ?? "").replace("<none>", ""),
  createdAt: row.createdAt,
});

export function podOf(row: Row): Owned {
  const word = row.isDeleted ? "Terminating" : (row.cells.Status ?? "");
  const ready = row.cells.Ready ?? "";
  return { ...base(row, "", "Pod"), health: podHealth(word, ready), word, ready };
}

function replicaSetOf(row: Row): Owned {
  const { Desired: wanted = "0", Ready: ready = "0" } = row.cells;
  const health = row.isDeleted ? Health.TERMINATING : wanted === ready ? Health.HEALTHY : Health.PROGRESSING;
  return { ...base(row, "apps", "ReplicaSet"), health, word: "", ready: `${ready}/${wanted}` };
}

const isOf = (row: Row, uid: string) => row.owners.some((owner) => owner.uid === uid);

interface RawWorkload {
  metadata?: { uid?: string };
  spec?: { selector?: LabelSelector };
}

/** Returns what the workload owns. Its selector finds candidates, and their owner decides. */
export async function loadFamily(hub: Hub, cluster: string, ref: Ref, signal: AbortSignal): Promise<Family> {
  const kind = workloadOf(ref);
  if (!kind) return { replicaSets: [], pods: [], more: 0 };
  const path = resourcePath(kind.groupVersion, ref.namespace, kind.resource, ref.name);
  const { metadata, spec } = await readJson<RawWorkload>(hub.clusters, cluster, path, signal);
  const labelSelector = selectorText(spec?.selector ?? {});
  const uid = metadata?.uid ?? "";
  if (labelSelector === "" || uid === "") return { replicaSets: [], pods: [], more: 0 };
  const list = (groupVersion: string, resource: string) =>
    readTable(hub, cluster, resourcePath(groupVersion, ref.namespace, resource), { labelSelector }, signal);
  const [pods, sets] = await Promise.all([
    list("v1", "pods"),
    kind.hasReplicaSets ? list("apps/v1", "replicasets") : undefined,
  ]);
  const replicaSets = (sets?.rows ?? [])
    .filter((row) => isOf(row, uid))
    .map((row) => ({ row, pods: pods.rows.filter((pod) => isOf(pod, row.uid)).map(podOf) }))
    // A deployment keeps ReplicaSets that are empty, to be rolled back to.
    .filter(({ row, pods }) => pods.length > 0 || (row.cells.Desired ?? "0") !== "0")
    .sort((a, b) => (b.row.createdAt ?? 0) - (a.row.createdAt ?? 0))
    .map(({ row, pods }) => ({ ...replicaSetOf(row), pods }));
  return { replicaSets, pods: pods.rows.filter((row) => isOf(row, uid)).map(podOf), more: pods.more };
}

const every = 10_000;

export const familySource = (hub: Hub, cluster: string, ref: Ref): Source<Family> =>
  polled((signal) => loadFamily(hub, cluster, ref, signal), every, hub.surroundings);

/** Returns all pods of a family. */
export const podsOf = ({ replicaSets, pods }: Family): Owned[] => [...replicaSets.flatMap((set) => set.pods), ...pods];
