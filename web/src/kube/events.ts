// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Hub } from "../hub/hub.ts";
import { query, readJson } from "./api.ts";
import { resourcePath } from "./path.ts";
import { hasPods, type Ref } from "./refs.ts";

/** KubeEvent is what a part of a cluster noted about an object. */
export interface KubeEvent {
  key: string;
  at: number;
  isWarning: boolean;
  kind: string;
  namespace: string;
  name: string;
  reason: string;
  message: string;
  count: number;
}

export interface RawEvent {
  metadata?: { uid?: string; name?: string; creationTimestamp?: string };
  involvedObject?: { kind?: string; namespace?: string; name?: string };
  reason?: string;
  message?: string;
  type?: string;
  count?: number | null;
  series?: { count?: number; lastObservedTime?: string } | null;
  firstTimestamp?: string | null;
  lastTimestamp?: string | null;
  eventTime?: string | null;
}

const most = 500;
const text = (value: unknown, length = 300) => String(value ?? "").slice(0, length);

export function eventOf(raw: RawEvent): KubeEvent {
  const { involvedObject: about = {}, metadata = {}, series } = raw;
  // Which of the times is set depends on who noted the event.
  const times = [series?.lastObservedTime, raw.lastTimestamp, raw.eventTime, raw.firstTimestamp];
  const at = Date.parse(times.find(Boolean) ?? metadata.creationTimestamp ?? "");
  return {
    key: text(metadata.uid ?? metadata.name),
    at: Number.isNaN(at) ? 0 : at,
    isWarning: raw.type === "Warning",
    kind: text(about.kind),
    namespace: text(about.namespace),
    name: text(about.name),
    reason: text(raw.reason),
    message: text(raw.message, 4000),
    count: Math.max(1, series?.count ?? raw.count ?? 1),
  };
}

// What a workload owns has its name and more, and an event names its object alone.
const ownedKinds = ["Pod", "ReplicaSet", "Job"];

/**
 * Returns whether an event is about one of the objects, or about a pod, ReplicaSet or job that has its name from one. An
 * event about an object of the whole cluster is in a namespace of its own choice.
 */
export function aboutAny(objects: readonly Ref[]): (event: KubeEvent) => boolean {
  const key = (...parts: string[]) => parts.join("\n");
  const exact = new Set(objects.map(({ kind, namespace, name }) => key(kind, namespace, name)));
  const owners = new Set(objects.filter(hasPods).map(({ namespace, name }) => key(namespace, name)));
  return ({ kind, namespace, name }) => {
    if (exact.has(key(kind, namespace, name)) || exact.has(key(kind, "", name))) return true;
    if (!ownedKinds.includes(kind)) return false;
    for (let end = name.lastIndexOf("-"); end > 0; end = name.lastIndexOf("-", end - 1)) {
      if (owners.has(key(namespace, name.slice(0, end)))) return true;
    }
    return false;
  };
}

export interface Events {
  events: readonly KubeEvent[];
  /** Reports that the namespaces have more events than were read. */
  hasMore: boolean;
}

/** Returns the events of namespaces, the newest first. */
export async function loadEvents(
  { clusters }: Hub,
  cluster: string,
  namespaces: readonly string[],
  onlyWarnings: boolean,
  signal: AbortSignal,
): Promise<Events> {
  const lists = await Promise.all(
    namespaces.map((namespace) =>
      readJson<{ items?: RawEvent[]; metadata?: { continue?: string } }>(
        clusters,
        cluster,
        resourcePath("v1", namespace, "events") +
          query({ limit: most, fieldSelector: onlyWarnings ? "type=Warning" : undefined }),
        signal,
      ),
    ),
  );
  const events = lists.flatMap(({ items }) => (items ?? []).slice(0, most).map(eventOf)).sort((a, b) => b.at - a.at);
  return { events, hasMore: lists.some(({ metadata }) => Boolean(metadata?.continue)) };
}
