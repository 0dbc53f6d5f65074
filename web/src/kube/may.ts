// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Hub } from "../hub/hub.ts";
import { terminal } from "../text/terminal.ts";
import { reviewAccess } from "./access.ts";

// Whether a person may run a program in a pod. The hub's bindings and the cluster's own RBAC both have a say, and each is
// asked in its own way.

const verb = "get";
const exec = { group: "", resource: "pods" };

async function ask(
  hub: Hub,
  ref: string,
  path: string,
  namespace: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { allowed, reason } = await hub.fleet.reviewAccess(
    { cluster: ref, attributes: { verb, apiGroup: "", resource: "pods/exec", namespace } },
    { signal },
  );
  if (!allowed) return terminal.mayNot(reason || terminal.mayNotHub);
  const object = { namespace, name: "", subresource: "exec" };
  const review = await reviewAccess(hub.clusters, path, verb, exec, object, signal);
  return review.isAllowed ? undefined : terminal.mayNot(review.reason || terminal.mayNotCluster);
}

/** How long an answer is as good as a new one. */
const fresh = 60_000;

const answers = new WeakMap<Hub, Map<string, { at: number; answer: Promise<string | undefined> }>>();

/**
 * Returns why the person may not run programs in pods of a namespace, or undefined if they may. All rows of a page share
 * one answer. A hub or a cluster that does not say is asked by the session itself.
 */
export function whyNotExec(hub: Hub, ref: string, path: string, namespace: string): Promise<string | undefined> {
  const own = answers.get(hub) ?? new Map();
  answers.set(hub, own);
  const key = JSON.stringify([ref, namespace]);
  const known = own.get(key);
  const now = hub.surroundings.now();
  if (known && now - known.at < fresh) return known.answer;
  const answer = ask(hub, ref, path, namespace, new AbortController().signal).catch(() => {
    own.delete(key);
    return undefined;
  });
  own.set(key, { at: now, answer });
  return answer;
}
