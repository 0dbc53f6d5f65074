// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { KnownError } from "../hub/failure.ts";
import type { Hub } from "../hub/hub.ts";
import { polled, type Source } from "../hub/live.ts";
import { query, readJson } from "./api.ts";
import { ofAllPods } from "./logs.ts";
import type { Place } from "./names.ts";
import { apiPath, resourcePath } from "./path.ts";

// CPU and memory, as the metrics API of a cluster has them. It is an add-on: a cluster without one answers like a
// cluster without the path.

const units: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** Returns a quantity of Kubernetes as a number, in cores or bytes, or undefined if the text is not one. */
export function quantity(raw: unknown): number | undefined {
  const [, digits, unit, exponent] =
    /^([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$/.exec(
      String(raw),
    ) ?? [];
  if (digits === undefined) return undefined;
  return Number(digits) * (exponent === undefined ? (units[unit ?? ""] ?? 1) : 10 ** Number(exponent));
}

/** Amount is what is used of one resource, and of what. */
export interface Amount {
  used: number;
  /** What there is of it. undefined: no bound is set. */
  of: number | undefined;
  /** What the bound is. */
  bound: "limit" | "request" | "allocatable" | undefined;
}

export interface Usage {
  name: string;
  namespace: string;
  cpu: Amount;
  memory: Amount;
}

export interface Metrics {
  rows: readonly Usage[];
  /** How many of the pods or nodes have no figures. New ones have none for a minute. */
  without: number;
  /** There are more than are shown. */
  hasMore: boolean;
}

type Resources = Record<string, unknown>;

interface RawUsage {
  metadata?: { name?: string; namespace?: string };
  usage?: Resources;
  containers?: { usage?: Resources }[];
}

interface RawList<T> {
  metadata?: { continue?: string };
  items?: T[];
}

const group = "metrics.k8s.io/v1beta1";
const every = 15_000;
const mostNodes = 300;
const mostPods = 500;
const mostNamespaces = 10;

/** The reason of a failure that means that the cluster has no metrics API. */
export const noMetrics = "NO_METRICS_API";

async function readUsage(hub: Hub, cluster: string, path: string, signal: AbortSignal): Promise<RawUsage[]> {
  try {
    return (await readJson<RawList<RawUsage>>(hub.clusters, cluster, path, signal)).items ?? [];
  } catch (thrown) {
    // An API server answers 404 for a group that it does not have, and 503 for one whose server is not there.
    const failure = thrown instanceof KnownError ? thrown.failure : undefined;
    const isGone = failure?.kind === "missing" || failure?.kind === "unreachable";
    if (!isGone || failure?.metadata.origin !== "cluster") throw thrown;
    throw new KnownError({ ...failure, kind: "missing", reason: noMetrics });
  }
}

const sum = (all: readonly (Resources | undefined)[], name: string) =>
  all.reduce((total, each) => total + (quantity(each?.[name]) ?? 0), 0);

/** Returns the sum of a bound over all containers, or undefined if one of them has none. */
const boundOf = (all: readonly (Resources | undefined)[], name: string): number | undefined =>
  all.length > 0 && all.every((each) => quantity(each?.[name]) !== undefined) ? sum(all, name) : undefined;

interface RawNode {
  metadata?: { name?: string };
  status?: { allocatable?: Resources };
}

/** Returns the source of what the nodes of a cluster use, of what they can give to pods. */
export const nodeMetrics = (hub: Hub, cluster: string): Source<Metrics> =>
  polled(
    async (signal): Promise<Metrics> => {
      const [used, nodes] = await Promise.all([
        readUsage(hub, cluster, apiPath(group, "nodes"), signal),
        readJson<RawList<RawNode>>(hub.clusters, cluster, apiPath("v1", "nodes") + query({ limit: mostNodes }), signal),
      ]);
      const byName = new Map(used.map((usage) => [usage.metadata?.name, usage.usage]));
      const rows: Usage[] = [];
      for (const { metadata, status } of nodes.items ?? []) {
        const usage = byName.get(metadata?.name);
        if (!usage) continue;
        const amount = (name: string): Amount => {
          const of = quantity(status?.allocatable?.[name]);
          return { used: quantity(usage[name]) ?? 0, of, bound: of === undefined ? undefined : "allocatable" };
        };
        rows.push({ name: String(metadata?.name), namespace: "", cpu: amount("cpu"), memory: amount("memory") });
      }
      const without = (nodes.items?.length ?? 0) - rows.length;
      return { rows: rows.sort(fullest), without, hasMore: Boolean(nodes.metadata?.continue) };
    },
    every,
    hub.surroundings,
  );

/** Returns the source of what the pods of a service use, of their limits, or else of their requests. */
export const podMetrics = (hub: Hub, place: Place): Source<Metrics> =>
  polled(
    async (signal): Promise<Metrics> => {
      const pods = await ofAllPods(hub, place, (pod) => [pod], signal);
      const namespaces = new Set(pods.map(({ metadata }) => String(metadata?.namespace ?? "")));
      const used = await Promise.all(
        [...namespaces]
          .slice(0, mostNamespaces)
          .map((namespace) => readUsage(hub, place.cluster, resourcePath(group, namespace, "pods"), signal)),
      );
      const keyOf = (metadata: RawUsage["metadata"]) => `${metadata?.namespace}/${metadata?.name}`;
      const byName = new Map(used.flat().map((usage) => [keyOf(usage.metadata), usage.containers ?? []]));
      const rows: Usage[] = [];
      for (const { metadata, spec } of pods) {
        const containers = byName.get(keyOf(metadata));
        if (!containers) continue;
        const amount = (name: string): Amount => {
          const own = (spec?.containers ?? []).map(({ resources }) => resources);
          const limit = boundOf(
            own.map((each) => each?.limits),
            name,
          );
          const request = boundOf(
            own.map((each) => each?.requests),
            name,
          );
          const used = sum(
            containers.map(({ usage }) => usage),
            name,
          );
          return {
            used,
            of: limit ?? request,
            bound: limit !== undefined ? "limit" : request !== undefined ? "request" : undefined,
          };
        };
        const { name, namespace } = { name: String(metadata?.name), namespace: String(metadata?.namespace) };
        rows.push({ name, namespace, cpu: amount("cpu"), memory: amount("memory") });
      }
      rows.sort(fullest);
      return { rows: rows.slice(0, mostPods), without: pods.length - rows.length, hasMore: rows.length > mostPods };
    },
    every,
    hub.surroundings,
  );

/** Returns which share of its bound is used. */
export const shareOf = ({ used, of }: Amount): number | undefined => (of ? used / of : undefined);

const fullness = ({ cpu, memory }: Usage) => Math.max(shareOf(cpu) ?? 0, shareOf(memory) ?? 0);
const fullest = (a: Usage, b: Usage) =>
  fullness(b) - fullness(a) || b.memory.used - a.memory.used || a.name.localeCompare(b.name);
