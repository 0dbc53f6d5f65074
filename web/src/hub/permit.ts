// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import { KnownError } from "./failure.ts";
import type { Hub } from "./hub.ts";

// A page asks the hub whether the person may read something before it reads it. A refused call is on record as one, and
// a person who only opens a page has tried nothing.

/** Permission is what a call needs, as the hub's roles name it. */
export interface Permission {
  /** The cluster whose agent or API is called, as people name it. Empty is the hub itself. */
  cluster: string;
  verb: string;
  resource: string;
  /** The API group and the namespace of a request to the cluster's API. Without a group it is a call of Leat. */
  apiGroup?: string;
  namespace?: string;
}

/** How long the hub's consent holds. Each call is checked by the hub anyway. */
const fresh = 60_000;

const consents = new WeakMap<Hub, Map<string, { at: number; answer: Promise<void> }>>();

async function ask(
  hub: Hub,
  { cluster, verb, resource, apiGroup = "leat.dev", namespace = "" }: Permission,
): Promise<void> {
  const attributes = { verb, apiGroup, resource, namespace };
  const { allowed, reason } = await hub
    .call(FleetService)
    .reviewAccess({ cluster, attributes })
    .catch(() => {
      // The call itself says whether it is allowed, or that the hub does not answer.
      return { allowed: true, reason: "" };
    });
  if (!allowed)
    throw new KnownError({ kind: "refused", reason: "ACCESS_DENIED", message: reason.slice(0, 2000), metadata: {} });
}

/**
 * Returns when the person has the permission, and fails with the hub's reason if they do not. Everything that reads by
 * the same permission shares one question. A refusal is not kept, so the next visit asks again.
 */
export function permit(hub: Hub, needs: Permission): Promise<void> {
  const own = consents.get(hub) ?? new Map<string, { at: number; answer: Promise<void> }>();
  consents.set(hub, own);
  const key = JSON.stringify([needs.cluster, needs.verb, needs.resource, needs.apiGroup, needs.namespace]);
  const now = hub.surroundings.now();
  const known = own.get(key);
  if (known && now - known.at < fresh) return known.answer;
  const answer = ask(hub, needs);
  own.set(key, { at: now, answer });
  answer.catch(() => own.delete(key));
  return answer;
}
