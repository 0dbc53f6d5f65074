// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Clusters } from "../hub/hub.ts";
import { readJson } from "./api.ts";
import { type Discovery, type Kind, loadDiscovery } from "./discovery.ts";
import { type Address, isSecret, type KubeObject, type OwnerReference, objectPath } from "./object.ts";

/** Ancestor is an object to which another one belongs. */
export interface Ancestor {
  kind: string;
  name: string;
  /** Where it is, if the cluster has its kind. */
  address: (Address & { kind: Kind }) | undefined;
}

const mostAncestors = 6;
const asMetadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

/** Returns the owner that acts on an object, or the first of its owners. */
function ownerOf({ metadata }: KubeObject): OwnerReference | undefined {
  const owners = metadata?.ownerReferences;
  if (!Array.isArray(owners)) return undefined;
  return owners.find((owner) => owner?.controller === true) ?? owners[0];
}

function addressOf(discovery: Discovery, owner: OwnerReference, namespace: string): Ancestor["address"] {
  const version = String(owner.apiVersion ?? "");
  const group = version.includes("/") ? version.slice(0, version.indexOf("/")) : "";
  const kind = discovery.kinds.find((each) => each.group === group && each.kind === owner.kind);
  return kind && { kind, namespace: kind.isNamespaced ? namespace : "", name: String(owner.name ?? "") };
}

/** Returns to what an object belongs, its own owner first. A chain that cannot be read ends where that is. */
export async function loadAncestors(
  clusters: Clusters,
  cluster: string,
  object: KubeObject,
  signal: AbortSignal,
): Promise<readonly Ancestor[]> {
  const found: Ancestor[] = [];
  let owner = ownerOf(object);
  if (!owner) return found;
  const discovery = await loadDiscovery(clusters, cluster, signal);
  while (owner && found.length < mostAncestors) {
    const address = addressOf(discovery, owner, String(object.metadata?.namespace ?? ""));
    const name = String(owner.name ?? "").slice(0, 253);
    found.push({ kind: String(owner.kind ?? "").slice(0, 253), name, address });
    if (!address || isSecret(address.kind)) break;
    const next: KubeObject | undefined = await readJson<KubeObject>(
      clusters,
      cluster,
      objectPath(address),
      signal,
      asMetadata,
    ).catch(() => undefined);
    owner = next && ownerOf(next);
  }
  return found;
}
