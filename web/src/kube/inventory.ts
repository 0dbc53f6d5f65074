// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Client, createClient } from "@connectrpc/connect";
import { AgentService } from "../gen/leat/agent/v1/agent_pb";
import type { ObjectStatus } from "../gen/leat/type/v1/state_pb";
import type { Hub } from "../hub/hub.ts";
import { polled, type Source } from "../hub/live.ts";
import { permit } from "../hub/permit.ts";
import type { Place } from "./names.ts";
import { rankOf, refOf } from "./refs.ts";

export const agentOf = ({ clusters }: Hub, { cluster }: Place): Client<typeof AgentService> =>
  createClient(AgentService, clusters.transport(cluster));

/** Returns when the person may read a part of services from a cluster's agent, and fails with the hub's reason if not. */
export const permitAgent = (hub: Hub, { cluster }: Place, verb: "get" | "watch", part: string): Promise<void> =>
  // No label of a path has a dot, so the dot is what stands between project and name.
  permit(hub, { cluster: cluster.replace(".", "/"), verb, resource: `services/${part}` });

/** Inventory is what a service has in its cluster, in the order in which its agent applies it. */
export interface Inventory {
  objects: readonly ObjectStatus[];
  /** Reports that there are more objects than a page holds. */
  hasMore: boolean;
}

const pageSize = 1000;
export const mostObjects = 20_000;
const every = 10_000;

/** How long an agent may take to answer before the page says that it waits. */
const waits = 5000;

/** Waits for an answer, and calls onWait when it takes long, and again when it is there. */
async function heard<T>(hub: Hub, answer: Promise<T>, onWait: (isWaiting: boolean) => void): Promise<T> {
  const waiting = new AbortController();
  void hub.surroundings.sleep(waits, waiting.signal).then(() => {
    if (!waiting.signal.aborted) onWait(true);
  });
  try {
    return await answer;
  } finally {
    waiting.abort();
    onWait(false);
  }
}

/** Returns a service's inventory. onWait is called when an answer takes long, and when it is there. */
export async function loadInventory(
  hub: Hub,
  place: Place,
  signal: AbortSignal,
  onWait: (isWaiting: boolean) => void = () => {},
): Promise<Inventory> {
  await heard(hub, permitAgent(hub, place, "get", "inventory"), onWait);
  const agent = agentOf(hub, place);
  const objects: ObjectStatus[] = [];
  let token = "";
  do {
    const page = { size: pageSize, token };
    const answer = await heard(hub, agent.getInventory({ service: place.service, page }, { signal }), onWait);
    objects.push(...answer.objects);
    token = answer.nextPageToken;
  } while (token !== "" && objects.length < mostObjects);
  // The agent sorts by kind and name, and within a rank that order stays.
  const sorted = objects.toSorted((a, b) => rankOf(refOf(a.ref)) - rankOf(refOf(b.ref)));
  return { objects: sorted.slice(0, mostObjects), hasMore: token !== "" };
}

/** Returns the source of a service's inventory. Agents have no stream of it, so it is read again now and then. */
export const inventorySource = (hub: Hub, place: Place, onWait?: (isWaiting: boolean) => void): Source<Inventory> =>
  polled((signal) => loadInventory(hub, place, signal, onWait), every, hub.surroundings);
