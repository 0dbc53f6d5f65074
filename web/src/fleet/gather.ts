// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import type { Hub } from "../hub/hub.ts";
import type { Query } from "../hub/list.ts";
import { act } from "../text/act.ts";
import type { Picked, Selection } from "./selection.ts";

// Which services a selection means, as the hub has them at this moment.

const windowSize = 500;
export const mostServices = 10_000;
const mostClusters = 500;
const tries = 3;

/** Returns all rows of a query, in windows. The fleet moves meanwhile, so a row that slipped between two is read again. */
async function readAll(hub: Hub, query: Query, most: number, refuse: (total: number) => string): Promise<Picked[]> {
  let found = new Map<string, Picked>();
  for (let turn = 0; turn < tries; turn += 1) {
    found = new Map();
    let total = 0;
    for (let offset = 0; offset === 0 || offset < total; offset += windowSize) {
      const answer = await hub.query.queryFleet({ query: { ...query, order: "name", offset, size: windowSize } });
      total = answer.total;
      if (total > most) throw new ConnectError(refuse(total), Code.FailedPrecondition);
      for (const { ref, can, paused } of answer.rows) found.set(ref, { ref, can, paused });
      if (answer.rows.length === 0) break;
    }
    if (found.size === total) break;
  }
  return [...found.values()];
}

/** Gathered are the services of a selection. */
export interface Gathered {
  services: readonly Picked[];
  /** How many clusters were selected, if clusters were. */
  clusters: number | undefined;
}

const rowsOf = (found: readonly Picked[], { rows }: Selection) => found.filter(({ ref }) => !rows.has(ref));

/** Returns the services that a selection of services or of clusters means. */
export async function gather(hub: Hub, query: Query, selection: Selection): Promise<Gathered> {
  const tooMany = (total: number) => act.bulk.tooMany(total, mostServices);
  const tooManyClusters = (total: number) => act.bulk.tooManyClusters(total, mostClusters);
  if (query.kind === "Service") {
    if (!selection.isAll) return { services: [...selection.rows.values()], clusters: undefined };
    return { services: rowsOf(await readAll(hub, query, mostServices, tooMany), selection), clusters: undefined };
  }
  const clusters = selection.isAll
    ? rowsOf(await readAll(hub, query, mostClusters, tooManyClusters), selection)
    : [...selection.rows.values()];
  if (clusters.length > mostClusters) throw new ConnectError(tooManyClusters(clusters.length), Code.FailedPrecondition);
  const services: Picked[] = [];
  for (const { ref } of clusters) {
    services.push(...(await readAll(hub, { kind: "Service", cluster: ref }, mostServices, tooMany)));
    if (services.length > mostServices) throw new ConnectError(tooMany(services.length), Code.FailedPrecondition);
  }
  return { services, clusters: clusters.length };
}

export type Verb = "sync" | "pause" | "resume";

/** The permission that each needs. */
export const permissions: Record<Verb, string> = { sync: "sync", pause: "pause", resume: "pause" };

/** Plan is what would be done, and what not, and why. */
export interface Plan {
  items: readonly Picked[];
  /** How many the person may not change. */
  refused: number;
  /** How many are so already. */
  already: number;
}

export function planOf(verb: Verb, services: readonly Picked[]): Plan {
  const allowed = services.filter(({ can }) => can.includes(permissions[verb]));
  const items = allowed.filter(({ paused }) => verb === "sync" || paused === (verb === "resume"));
  return { items, refused: services.length - allowed.length, already: allowed.length - items.length };
}

/** Reports whether two answers are of the same services. */
export function isSame(a: readonly Picked[], b: readonly Picked[]): boolean {
  const refs = new Set(a.map(({ ref }) => ref));
  return a.length === b.length && b.every(({ ref }) => refs.has(ref));
}
