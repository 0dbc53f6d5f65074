// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Hub } from "../hub/hub.ts";
import { permit } from "../hub/permit.ts";
import { hasCode, query, readJson, sendJson } from "./api.ts";
import { editor } from "./apply.ts";
import { groupVersionOf, type Kind } from "./discovery.ts";
import { managersOf } from "./fields.ts";
import { type Address, type KubeObject, leatManager, loadObject, objectPath, type Place } from "./object.ts";
import { apiPath, resourcePath } from "./path.ts";

// What people do to workloads while something is wrong: restart, scale, evict. Each is tried by a dry run first. A restart
// and a scale change one field, and are refused if another person has changed that field in between; a status that
// changes all the time refuses nothing.

export type Operation = "restart" | "scale" | "evict";

type Resource = Pick<Kind, "group" | "version" | "resource">;

const restarted = ["deployments", "statefulsets", "daemonsets"];

export const canRestart = ({ group, resource }: Resource): boolean => group === "apps" && restarted.includes(resource);

export const canEvict = ({ group, resource }: Resource): boolean => group === "" && resource === "pods";

/** Reports whether the cluster's discovery has a scale of this kind. */
export async function hasScale(
  { clusters }: Pick<Hub, "clusters">,
  cluster: string,
  kind: Resource,
  signal: AbortSignal,
): Promise<boolean> {
  const path = apiPath(groupVersionOf(kind));
  const { resources } = await readJson<{ resources?: { name?: unknown }[] }>(clusters, cluster, path, signal);
  return Array.isArray(resources) && resources.some((each) => each?.name === `${kind.resource}/scale`);
}

/** Needs are the permissions of an operation, as verbs of a resource or of a subresource. */
export const needsOf: Record<Operation, readonly { verb: string; subresource?: string }[]> = {
  restart: [{ verb: "patch" }],
  scale: [
    { verb: "get", subresource: "scale" },
    { verb: "patch", subresource: "scale" },
  ],
  evict: [{ verb: "create", subresource: "eviction" }],
};

/** The annotation that kubectl sets, so that a restart by either is one to the other. */
const restartedAt = "kubectl.kubernetes.io/restartedAt";

const fieldOf: Record<"restart" | "scale", readonly string[]> = {
  restart: ["f:spec", "f:template", "f:metadata", "f:annotations", `f:${restartedAt}`],
  scale: ["f:spec", "f:replicas"],
};

/** Seen is the field as a person has seen it. */
export interface Seen {
  uid: string;
  version: string;
  /** When it was restarted last, or how many pods it has to have. */
  value: string;
}

interface Scale {
  metadata?: { uid?: string; resourceVersion?: string };
  spec?: { replicas?: number };
}

const metadataOf = (metadata: Scale["metadata"]) => ({
  uid: String(metadata?.uid ?? ""),
  version: String(metadata?.resourceVersion ?? ""),
});

const scalePath = (address: Address) => `${objectPath(address)}/scale`;

type Template = { template?: { metadata?: { annotations?: Record<string, unknown> } } };

/** Returns the field that an operation changes. */
export async function seeField(
  hub: Hub,
  { path, address }: Place,
  what: "restart" | "scale",
  signal: AbortSignal,
): Promise<Seen> {
  if (what === "scale") {
    const { metadata, spec } = await readJson<Scale>(hub.clusters, path, scalePath(address), signal);
    return { ...metadataOf(metadata), value: String(Number(spec?.replicas ?? 0)) };
  }
  const { metadata, spec } = await loadObject(hub, path, address, signal);
  const annotations = (spec as Template | undefined)?.template?.metadata?.annotations;
  return { ...metadataOf(metadata), value: String(annotations?.[restartedAt] ?? "").slice(0, 100) };
}

const mostTries = 5;

/**
 * Sets the field, if it is still as it was seen; otherwise it returns what the field is now. The version of an object
 * changes with its status too, so a version that is too old is read again before it is a refusal.
 */
export async function setField(
  hub: Hub,
  place: Place,
  what: "restart" | "scale",
  { seen, value, isDryRun }: { seen: Seen; value: string; isDryRun: boolean },
  signal: AbortSignal,
): Promise<Seen | undefined> {
  const { path, address } = place;
  const url =
    (what === "scale" ? scalePath(address) : objectPath(address)) +
    query({ fieldManager: editor, fieldValidation: "Strict", dryRun: isDryRun ? "All" : undefined });
  const spec =
    what === "scale"
      ? { replicas: Number(value) }
      : { template: { metadata: { annotations: { [restartedAt]: value } } } };
  let { version } = seen;
  for (let tries = 1; ; tries += 1) {
    try {
      const patch = { metadata: { resourceVersion: version }, spec };
      await sendJson(hub.clusters, path, url, "PATCH", patch, signal, "application/merge-patch+json");
      return undefined;
    } catch (thrown) {
      if (!hasCode(thrown, 409) || tries === mostTries) throw thrown;
      const now = await seeField(hub, place, what, signal);
      if (now.uid !== seen.uid || now.value !== seen.value) return now;
      version = now.version;
    }
  }
}

/** Setter is a manager that has set the field. */
export interface Setter {
  manager: string;
  isLeat: boolean;
}

/** Returns the managers of the field that an operation changes, the latest first. */
export function settersOf({ metadata }: KubeObject, what: "restart" | "scale"): Setter[] {
  const found = managersOf(metadata?.managedFields).filter(({ fieldsV1 }) => {
    let at: unknown = fieldsV1;
    for (const field of fieldOf[what]) at = (at as Record<string, unknown> | undefined)?.[field];
    return at !== undefined;
  });
  found.sort((a, b) => (Date.parse(String(b.time)) || 0) - (Date.parse(String(a.time)) || 0));
  const names = new Set(found.map(({ manager = "" }) => manager.slice(0, 128)));
  return [...names].map((manager) => ({ manager, isLeat: manager === leatManager }));
}

interface Autoscaler {
  metadata?: { name?: string };
  spec?: { scaleTargetRef?: { kind?: string; name?: string; apiVersion?: string } };
}

/**
 * Returns the HorizontalPodAutoscalers that scale an object. A person who may not list them learns nothing of them, and
 * whoever set the field before is named by its managers anyway.
 */
export async function loadAutoscalers(
  hub: Hub,
  { cluster, path, address }: Place,
  kind: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { kind: of, namespace, name } = address;
  try {
    const apiGroup = "autoscaling";
    await permit(hub, { cluster, verb: "list", apiGroup, resource: "horizontalpodautoscalers", namespace });
    const list = resourcePath("autoscaling/v2", namespace, "horizontalpodautoscalers") + query({ limit: 500 });
    const { items } = await readJson<{ items?: Autoscaler[] }>(hub.clusters, path, list, signal);
    return (Array.isArray(items) ? items : [])
      .filter(({ spec }) => {
        const target = spec?.scaleTargetRef;
        const [group] = String(target?.apiVersion ?? "").split("/");
        return target?.kind === kind && target.name === name && (group === of.group || of.group === "");
      })
      .map(({ metadata }) => String(metadata?.name ?? "").slice(0, 253));
  } catch {
    return [];
  }
}

/** Evicts a pod, or asks whether the cluster would. The uid keeps another pod of the same name. */
export async function evict(
  { clusters }: Pick<Hub, "clusters">,
  { path, address }: Place,
  { uid, isDryRun }: { uid: string; isDryRun: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace } = address;
  const url = `${objectPath(address)}/eviction${query({ dryRun: isDryRun ? "All" : undefined })}`;
  await sendJson(
    clusters,
    path,
    url,
    "POST",
    {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name, namespace },
      deleteOptions: { preconditions: { uid }, ...(isDryRun && { dryRun: ["All"] }) },
    },
    signal,
  );
}

/** Returns what PodDisruptionBudgets say against an eviction, or undefined if none of them has refused it. */
export function budgetOf(thrown: unknown): string | undefined {
  if (!hasCode(thrown, 429)) return undefined;
  const said = thrown.causes.filter(({ reason }) => reason === "DisruptionBudget").map(({ message }) => message);
  if (said.length > 0) return said.join(" ").slice(0, 1000);
  return /disruption budget/i.test(thrown.failure.message) ? thrown.failure.message : undefined;
}
