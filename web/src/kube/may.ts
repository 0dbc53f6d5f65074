// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import type { Hub } from "../hub/hub.ts";
import { terminal } from "../text/terminal.ts";
import { reviewAccess } from "./access.ts";

// Whether a person may do something in a cluster, such as run a program in a pod. The hub's bindings and the cluster's own
// RBAC both have a say, and each is asked in its own way.

/** Permission is a verb of a resource in a namespace, as Kubernetes names it. */
export interface Permission {
  verb: string;
  group: string;
  resource: string;
  subresource?: string;
  /** Empty for what is of the whole cluster. */
  namespace: string;
  /** Empty for any object. */
  name?: string;
}

/** Words are what a page makes of a refusal that gives no reason of its own. */
export interface Words {
  mayNot: (reason: string) => string;
  mayNotHub: string;
  mayNotCluster: string;
}

async function ask(
  hub: Hub,
  ref: string,
  path: string,
  { verb, group, resource, subresource, namespace, name = "" }: Permission,
  words: Words,
  signal: AbortSignal,
): Promise<string | undefined> {
  const whole = subresource ? `${resource}/${subresource}` : resource;
  const { allowed, reason } = await hub
    .call(FleetService)
    .reviewAccess({ cluster: ref, attributes: { verb, apiGroup: group, resource: whole, namespace } }, { signal });
  if (!allowed) return words.mayNot(reason || words.mayNotHub);
  const object = { namespace, name, ...(subresource && { subresource }) };
  const review = await reviewAccess(hub.clusters, path, verb, { group, resource }, object, signal);
  return review.isAllowed ? undefined : words.mayNot(review.reason || words.mayNotCluster);
}

/** How long an answer is as good as a new one. */
const fresh = 60_000;

const answers = new WeakMap<Hub, Map<string, { at: number; answer: Promise<string | undefined> }>>();

/**
 * Returns why the person may not do something in a cluster, or undefined if they may. Everything on a page that asks the
 * same shares one answer. A hub or a cluster that does not say is asked by the request itself.
 */
export function whyNot(
  hub: Hub,
  ref: string,
  path: string,
  permission: Permission,
  words: Words,
): Promise<string | undefined> {
  const own = answers.get(hub) ?? new Map();
  answers.set(hub, own);
  const { verb, group, resource, subresource, namespace, name } = permission;
  const key = JSON.stringify([ref, verb, group, resource, subresource, namespace, name]);
  const known = own.get(key);
  const now = hub.surroundings.now();
  if (known && now - known.at < fresh) return known.answer;
  const answer = ask(hub, ref, path, permission, words, new AbortController().signal).catch(() => {
    own.delete(key);
    return undefined;
  });
  own.set(key, { at: now, answer });
  return answer;
}

const exec = { verb: "get", group: "", resource: "pods", subresource: "exec" };

/** Returns why the person may not run programs in pods of a namespace, or undefined if they may. */
export const whyNotExec = (hub: Hub, ref: string, path: string, namespace: string): Promise<string | undefined> =>
  whyNot(hub, ref, path, { ...exec, namespace }, terminal);
