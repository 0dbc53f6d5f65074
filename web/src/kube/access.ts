// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Clusters } from "../hub/hub.ts";
import { sendJson } from "./api.ts";
import type { Kind } from "./discovery.ts";

// What the cluster's own RBAC gives the person. The hub's bindings are another matter: the hub refuses before the
// cluster is asked.

interface RawRule {
  verbs?: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
}

const matches = (list: unknown, wanted: string) => Array.isArray(list) && (list.includes("*") || list.includes(wanted));

/** Reports whether the person may list a kind, or undefined if the cluster does not say. */
export type MayList = (kind: Kind) => boolean | undefined;

/** Returns what the person may list in a namespace. One answer is about all kinds. */
export async function loadMayList(
  clusters: Clusters,
  cluster: string,
  namespace: string,
  signal: AbortSignal,
): Promise<MayList> {
  const { status } = await sendJson<{ status?: { incomplete?: boolean; resourceRules?: RawRule[] } }>(
    clusters,
    cluster,
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "POST",
    { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace } },
    signal,
  );
  const rules = (status?.resourceRules ?? []).slice(0, 5000);
  return ({ group, resource, isNamespaced }) => {
    const isAllowed = rules.some(
      (rule) =>
        matches(rule.verbs, "list") &&
        matches(rule.apiGroups, group) &&
        matches(rule.resources, resource) &&
        !rule.resourceNames?.length,
    );
    // A webhook beside RBAC makes the answer incomplete, and a kind of the whole cluster is in no namespace.
    return isAllowed || (isNamespaced && !status?.incomplete && status?.resourceRules ? false : undefined);
  };
}

/** Review is whether the person may do something with an object, and the cluster's words if they may not. */
export interface Review {
  isAllowed: boolean;
  reason: string;
}

/** Asks the cluster whether the person may use a verb on an object. */
export async function reviewAccess(
  clusters: Clusters,
  cluster: string,
  verb: string,
  { group, resource }: Pick<Kind, "group" | "resource">,
  object: { namespace: string; name: string; subresource?: string },
  signal: AbortSignal,
): Promise<Review> {
  const { status } = await sendJson<{ status?: { allowed?: boolean; reason?: string } }>(
    clusters,
    cluster,
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "POST",
    {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { verb, group, resource, ...object } },
    },
    signal,
  );
  return { isAllowed: status?.allowed === true, reason: String(status?.reason ?? "").slice(0, 500) };
}
