// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Failure, failureOf } from "../hub/failure.ts";
import type { Hub } from "../hub/hub.ts";
import { polled, type Source } from "../hub/live.ts";
import { query, readJson, readStream } from "./api.ts";
import { loadInventory } from "./inventory.ts";
import type { Line } from "./lines.ts";
import type { Place } from "./names.ts";
import { type LabelSelector, selectorText } from "./owned.ts";
import { resourcePath } from "./path.ts";
import { type Ref, refOf, workloadOf } from "./refs.ts";
import { type Entry, Ring } from "./ring.ts";

// The logs of all containers of a service, merged by time. Each container's log is read again every two seconds from
// where it ended: a stream for each would use up the connections that a browser has to a host, and the page needs one for
// its own stream.

/** LogSource is a container. */
export interface LogSource {
  namespace: string;
  pod: string;
  container: string;
  /** The object whose pod it is, as kubectl names it, such as "deployment/web". */
  owner: string;
}

/** Choice is which logs are shown. */
export interface Choice {
  pod?: string | undefined;
  container?: string | undefined;
  /** How many seconds back. Without it, the last lines of each container. */
  since?: number | undefined;
  /** The containers before the present ones. Their logs have ended. */
  isPrevious?: boolean | undefined;
}

/** Logs is what has been read. The ring changes, and the number with it. */
export interface Logs {
  version: number;
  ring: Ring;
  sources: readonly LogSource[];
  /** All pods and containers that could be chosen. */
  pods: readonly string[];
  containers: readonly string[];
  /** How many containers are left out. */
  omitted: number;
  /** Reports that a container wrote faster than it could be read, so some of its lines are missing. */
  hasGap: boolean;
  /** Why the log of a container could not be read, by the container's number. */
  failures: ReadonlyMap<number, Failure>;
}

export const mostSources = 50;
const mostWorkloads = 50;
const mostPods = 100;
const firstLines = 500;
const mostBytes = 2 * 1024 * 1024;
/** The bytes of an answer, and what its lines cost beside: a line of the API has its time, at least. */
const mostAnswer = 4 * mostBytes;
const atOnce = 4;
const pause = 2000;
const refresh = 30_000;

interface RawContainer {
  name?: string;
  resources?: Partial<Record<"requests" | "limits", Record<string, string>>>;
}

export interface RawPod {
  metadata?: { name?: string; namespace?: string; ownerReferences?: { uid?: string; kind?: string; name?: string }[] };
  spec?: { containers?: RawContainer[]; initContainers?: RawContainer[] };
}

interface RawWorkload {
  metadata?: { uid?: string };
  spec?: { selector?: LabelSelector };
}

const mostContainers = 20;

const containersOf = ({ metadata, spec }: RawPod, { kind, name: owner }: Ref): LogSource[] =>
  [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].slice(0, mostContainers).map(({ name }) => ({
    namespace: String(metadata?.namespace ?? ""),
    pod: String(metadata?.name ?? ""),
    container: String(name ?? ""),
    owner: `${kind.toLowerCase()}/${owner}`,
  }));

/** Returns the pods of an object: itself, or those that it owns. */
async function podsOf({ clusters }: Hub, cluster: string, ref: Ref, signal: AbortSignal): Promise<RawPod[]> {
  const pods = resourcePath("v1", ref.namespace, "pods");
  const kind = workloadOf(ref);
  if (!kind)
    return [await readJson<RawPod>(clusters, cluster, resourcePath("v1", ref.namespace, "pods", ref.name), signal)];
  const path = resourcePath(kind.groupVersion, ref.namespace, kind.resource, ref.name);
  const { metadata, spec } = await readJson<RawWorkload>(clusters, cluster, path, signal);
  const labelSelector = selectorText(spec?.selector ?? {});
  if (labelSelector === "") return [];
  const list = await readJson<{ items?: RawPod[] }>(
    clusters,
    cluster,
    pods + query({ labelSelector, limit: mostPods }),
    signal,
  );
  // A selector finds candidates. The pods of a Deployment belong to its ReplicaSets, which have their names from it.
  return (list.items ?? []).filter((pod) =>
    pod.metadata?.ownerReferences?.some(
      (owner) =>
        owner.uid === metadata?.uid ||
        (kind.hasReplicaSets && owner.kind === "ReplicaSet" && owner.name?.startsWith(`${ref.name}-`)),
    ),
  );
}

/** Returns what the caller needs of all pods of a service. */
export async function ofAllPods<T>(
  hub: Hub,
  place: Place,
  read: (pod: RawPod, owner: Ref) => T[],
  signal: AbortSignal,
): Promise<T[]> {
  const { objects } = await loadInventory(hub, place, signal);
  const refs = objects
    .map((object) => refOf(object.ref))
    .filter((ref) => workloadOf(ref) || (ref.group === "" && ref.kind === "Pod"))
    .slice(0, mostWorkloads);
  const answers = await eachOf(refs, (ref) =>
    podsOf(hub, place.cluster, ref, signal).then(
      (pods): { found: T[]; failure?: unknown } => ({ found: pods.flatMap((pod) => read(pod, ref)) }),
      (failure: unknown) => ({ found: [], failure }),
    ),
  );
  // One workload that cannot be read leaves the others; none at all is the failure of the page.
  const failed = answers.find(({ failure }) => failure !== undefined);
  if (failed && answers.every(({ found }) => found.length === 0)) throw failed.failure;
  return answers.flatMap(({ found }) => found);
}

/** Does something with each, a few at a time. */
async function eachOf<T, R>(all: readonly T[], act: (each: T, index: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async () => {
    for (let index = next++; index < all.length; index = next++) results[index] = await act(all[index] as T, index);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, all.length) }, work));
  return results;
}

/** Splits a line into the time at which it was written, in milliseconds with a fraction, and its text. */
export function stamped(line: string): { stamp: string; at: number; text: string } {
  const found = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d) ?/.exec(line);
  const seconds = found ? Date.parse(`${found[1]}${found[3]}`) : Number.NaN;
  if (!found || Number.isNaN(seconds)) return { stamp: "", at: 0, text: line };
  return {
    stamp: found[0].trimEnd(),
    at: seconds + Number(found[2] ?? 0) * 1000,
    text: line.slice(found[0].length),
  };
}

/** Cursor is how far a container's log has been read. */
interface Cursor {
  stamp: string;
  at: number;
  /** How many lines have exactly that time. */
  count: number;
  /** The container writes more in a second than an answer holds, so the next answer begins further on. */
  isBehind?: boolean;
}

/**
 * Returns the lines that the cursor has not passed, and moves it. The API takes a time in whole seconds, so an answer
 * repeats the lines of one second.
 */
export function advance(cursor: Cursor, source: number, lines: readonly Line[]): Entry[] {
  const entries: Entry[] = [];
  let passed = cursor.count;
  for (const line of lines) {
    const { stamp, at, text } = stamped(line.text);
    if (cursor.stamp !== "" && stamp !== "" && at < cursor.at) continue;
    if (stamp === cursor.stamp && stamp !== "") {
      if (passed > 0) {
        passed -= 1;
        continue;
      }
      cursor.count += 1;
    } else if (stamp !== "") {
      cursor.stamp = stamp;
      cursor.at = at;
      cursor.count = 1;
      passed = 0;
    }
    // A line without a time, such as the rest of one that was cut, is where the one before it is.
    entries.push({ at: stamp === "" ? cursor.at : at, source, text, cut: line.cut });
  }
  return entries;
}

/** Finder finds the containers whose logs can be chosen. */
export type Finder = (hub: Hub, signal: AbortSignal) => Promise<LogSource[]>;

/** Returns a finder of all containers of a service. */
export const ofService =
  (place: Place): Finder =>
  (hub, signal) =>
    ofAllPods(hub, place, containersOf, signal);

/** Returns a finder of the containers of one pod. */
export function ofPod(cluster: string, namespace: string, name: string): Finder {
  const ref: Ref = { group: "", kind: "Pod", namespace, name };
  return async (hub, signal) => {
    const pods = await podsOf(hub, cluster, ref, signal);
    return pods.flatMap((pod) => containersOf(pod, ref));
  };
}

/** Returns the source of what containers in a cluster log. It continues where it was when the page is shown again. */
export function logsSource(hub: Hub, cluster: string, find: Finder, choice: Choice): Source<Logs> {
  const ring = new Ring();
  const cursors: Cursor[] = [];
  const sources: LogSource[] = [];
  const failures = new Map<number, Failure>();
  let known: LogSource[] = [];
  let omitted = 0;
  let version = 0;
  let hasGap = false;
  let foundAt = Number.NEGATIVE_INFINITY;

  const numberOf = (wanted: LogSource): number => {
    const index = sources.findIndex((each) => each.pod === wanted.pod && each.container === wanted.container);
    if (index >= 0) return index;
    cursors.push({ stamp: "", at: 0, count: 0 });
    return sources.push(wanted) - 1;
  };

  async function readOne(wanted: LogSource, signal: AbortSignal): Promise<Entry[]> {
    const source = numberOf(wanted);
    const cursor = cursors[source] as Cursor;
    const isFirst = cursor.stamp === "";
    const options = {
      container: wanted.container,
      timestamps: true,
      limitBytes: mostBytes,
      ...(choice.isPrevious && { previous: true }),
      ...(!isFirst && { sinceTime: cursor.stamp }),
      ...(isFirst && choice.since && { sinceSeconds: choice.since }),
      ...(((isFirst && !choice.since) || cursor.isBehind) && { tailLines: firstLines }),
    };
    const path = resourcePath("v1", wanted.namespace, "pods", wanted.pod, "log") + query(options);
    try {
      const lines: Line[] = [];
      // The API keeps to limitBytes. One that does not is cut off.
      for await (const next of readStream(hub.clusters, cluster, path, mostAnswer, signal)) {
        for (const line of next) lines.push(line);
      }
      failures.delete(source);
      const entries = advance(cursor, source, lines);
      const size = lines.reduce((sum, line) => sum + line.text.length + line.cut, 0);
      cursor.isBehind = !isFirst && entries.length === 0 && size >= mostBytes / 2;
      if (cursor.isBehind) hasGap = true;
      return entries;
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      failures.set(source, failureOf(thrown));
      return [];
    }
  }

  async function round(signal: AbortSignal): Promise<Logs> {
    const now = hub.surroundings.now();
    if (now - foundAt >= refresh) {
      known = await find(hub, signal);
      foundAt = now;
    }
    const wanted = known.filter(
      ({ pod, container }) =>
        (!choice.pod || pod === choice.pod) && (!choice.container || container === choice.container),
    );
    omitted = Math.max(0, wanted.length - mostSources);
    const read = await eachOf(wanted.slice(0, mostSources), (each) => readOne(each, signal));
    ring.add(read.flat());
    version += 1;
    return {
      version,
      ring,
      sources,
      pods: [...new Set(known.map(({ pod }) => pod))],
      containers: [...new Set(known.map(({ container }) => container))],
      omitted,
      hasGap,
      failures: new Map(failures),
    };
  }

  // What has ended grows no more.
  return choice.isPrevious ? { load: round } : polled(round, pause, hub.surroundings);
}
