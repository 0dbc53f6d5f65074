// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Hub } from "../hub/hub.ts";
import { polled, type Source } from "../hub/live.ts";
import { query, readJson } from "./api.ts";
import { groupVersionOf, type Kind } from "./discovery.ts";
import { eventOf, type KubeEvent, type RawEvent } from "./events.ts";
import { managersOf, type OwnedField } from "./fields.ts";
import { resourcePath } from "./path.ts";

// One object of a cluster. A Secret is read without its values: its metadata has the names of its keys, in the fields
// that somebody manages.

/** KubeObject is an object as the API returns it. Others wrote it, so any field may have any form. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata?: Metadata;
  [field: string]: unknown;
}

export interface Metadata {
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  finalizers?: string[];
  managedFields?: OwnedField[];
  [field: string]: unknown;
}

export interface OwnerReference {
  apiVersion?: string;
  kind?: string;
  name?: string;
  uid?: string;
  controller?: boolean;
}

/** Address is where an object is in a cluster. */
export interface Address {
  kind: Pick<Kind, "group" | "version" | "resource">;
  /** Empty for an object of the whole cluster. */
  namespace: string;
  name: string;
}

/** Place is an object and the cluster that has it. */
export interface Place {
  /** The cluster, as people name it, and as the tunnel does. */
  cluster: string;
  path: string;
  address: Address;
}

export const objectPath = ({ kind, namespace, name }: Address): string =>
  resourcePath(groupVersionOf(kind), namespace, kind.resource, name);

export const isSecret = ({ group, resource }: Pick<Kind, "group" | "resource">): boolean =>
  group === "" && resource === "secrets";

const asMetadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

/** Annotations that repeat an object, with what is secret in it. */
const repeats = ["kubectl.kubernetes.io/last-applied-configuration"];

/** Returns an object without what of a Secret must not be kept, whatever the cluster has answered. */
export function withoutSecrets({ data: _, stringData: __, ...object }: KubeObject): KubeObject {
  const annotations = Object.entries(object.metadata?.annotations ?? {}).filter(([name]) => !repeats.includes(name));
  return {
    ...object,
    metadata: {
      ...object.metadata,
      ...(object.metadata?.annotations && { annotations: Object.fromEntries(annotations) }),
    },
  };
}

/** Returns an object. Of a Secret, it returns the metadata. */
export async function loadObject(
  { clusters }: Pick<Hub, "clusters">,
  cluster: string,
  address: Address,
  signal: AbortSignal,
): Promise<KubeObject> {
  const path = objectPath(address);
  if (!isSecret(address.kind)) return readJson<KubeObject>(clusters, cluster, path, signal);
  const metadata = await readJson<KubeObject>(clusters, cluster, path, signal, asMetadata);
  return { ...withoutSecrets(metadata), apiVersion: "v1", kind: "Secret" };
}

const every = 10_000;

export const objectSource = (hub: Hub, cluster: string, address: Address): Source<KubeObject> =>
  polled((signal) => loadObject(hub, cluster, address, signal), every, hub.surroundings);

const mostKeys = 500;
const form = /^[-._a-zA-Z0-9]{1,253}$/;

/** Returns the names of a Secret's keys, as the fields that somebody manages have them. */
export function secretKeys({ metadata }: KubeObject): string[] {
  const keys = new Set<string>();
  for (const { fieldsV1 } of managersOf(metadata?.managedFields)) {
    const data = (fieldsV1 as Record<string, unknown> | undefined)?.["f:data"];
    for (const field of Object.keys((data as object | undefined) ?? {})) {
      const name = field.replace(/^f:/, "");
      if (form.test(name) && keys.size < mostKeys) keys.add(name);
    }
  }
  return [...keys].sort();
}

const mostSecret = 64 * 1024;

/** Returns the value of one key of a Secret, or undefined if it is gone. The caller forgets it soon. */
export async function readSecret(
  { clusters }: Pick<Hub, "clusters">,
  cluster: string,
  address: Address,
  key: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { data } = await readJson<{ data?: Record<string, unknown> }>(clusters, cluster, objectPath(address), signal);
  const value = data && Object.hasOwn(data, key) ? data[key] : undefined;
  if (typeof value !== "string") return undefined;
  const raw = atob(value.slice(0, 2 * mostSecret));
  return new TextDecoder().decode(Uint8Array.from(raw, (char) => char.charCodeAt(0))).slice(0, mostSecret);
}

const mostEvents = 100;

/** Returns the events about an object, the newest first. Those about an object of the whole cluster are in "default". */
export async function loadObjectEvents(
  { clusters }: Pick<Hub, "clusters">,
  cluster: string,
  namespace: string,
  uid: string,
  signal: AbortSignal,
): Promise<readonly KubeEvent[]> {
  const options = query({ fieldSelector: `involvedObject.uid=${uid}`, limit: mostEvents });
  const path = resourcePath("v1", namespace || "default", "events") + options;
  const { items = [] } = await readJson<{ items?: RawEvent[] }>(clusters, cluster, path, signal);
  return items
    .slice(0, mostEvents)
    .map(eventOf)
    .sort((a, b) => b.at - a.at);
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  since: number | undefined;
}

const short = (value: unknown, most = 300) => (typeof value === "string" ? value.slice(0, most) : "");

/** Returns the conditions in an object's status, as most kinds have them. */
export function conditionsOf({ status }: KubeObject): Condition[] {
  const found = (status as { conditions?: unknown } | undefined)?.conditions;
  if (!Array.isArray(found)) return [];
  return found.slice(0, 50).map((each: Record<string, unknown>) => {
    const since = Date.parse(short(each?.lastTransitionTime));
    return {
      type: short(each?.type),
      status: short(each?.status),
      reason: short(each?.reason),
      message: short(each?.message, 2000),
      since: Number.isNaN(since) ? undefined : since,
    };
  });
}

/** LeatService is the service that an object belongs to, by the labels that Leat's agent sets. */
export interface LeatService {
  name: string;
  project: string;
}

/** The name under which Leat's agent applies. */
export const leatManager = "leat";

/** Returns the service of an object, if Leat's agent manages it. A label alone is not enough, because anybody can copy one. */
export function leatServiceOf({ metadata }: KubeObject): LeatService | undefined {
  const name = metadata?.labels?.["leat.dev/service"];
  const project = metadata?.labels?.["leat.dev/project"] ?? "default";
  const isManaged = managersOf(metadata?.managedFields).some(({ manager }) => manager === leatManager);
  const isName = (text: unknown): text is string =>
    typeof text === "string" && /^[a-z0-9][-.a-z0-9]{0,252}$/.test(text);
  return isManaged && isName(name) && isName(project) ? { name, project } : undefined;
}
