// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Clusters } from "../hub/hub.ts";
import { hasCode, readJson } from "./api.ts";
import { apiPath } from "./path.ts";

// Which kinds a cluster has. An API server since 1.26 says that in two answers; an older one is asked for each group.

/** Kind is a kind of objects in the version that the cluster prefers. */
export interface Kind {
  /** Empty for the core group. */
  group: string;
  version: string;
  /** The resource, as paths and kubectl name it, such as "deployments". */
  resource: string;
  kind: string;
  isNamespaced: boolean;
  verbs: readonly string[];
  shortNames: readonly string[];
}

export interface Discovery {
  /** The kinds that can be listed, the cluster's own groups first. */
  kinds: readonly Kind[];
  /** The groups that did not answer, as when the server of an aggregated API is down. */
  missing: readonly string[];
}

/** Returns a group and version as the API writes them, such as "v1" or "apps/v1". */
export const groupVersionOf = ({ group, version }: Pick<Kind, "group" | "version">): string =>
  group === "" ? version : `${group}/${version}`;

/** Returns a resource as kubectl writes it, such as "deployments.apps". */
export const resourceOf = ({ group, resource }: Pick<Kind, "group" | "resource">): string =>
  group === "" ? resource : `${resource}.${group}`;

/** Returns the path segment for a group or a namespace that may be empty, and the reverse. */
export const coreGroup = "core";
export const noNamespace = "_";

const aggregated = ["v2", "v2beta1"]
  .map((version) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`)
  .concat("application/json")
  .join(",");

interface RawDiscovery {
  kind?: string;
  // Of an APIGroupDiscoveryList.
  items?: {
    metadata?: { name?: string };
    versions?: {
      version?: string;
      freshness?: string;
      resources?: {
        resource?: string;
        responseKind?: { kind?: string };
        scope?: string;
        verbs?: string[];
        shortNames?: string[];
      }[];
    }[];
  }[];
  // Of the older answers.
  versions?: string[];
  groups?: { name?: string; versions?: { groupVersion?: string }[]; preferredVersion?: { groupVersion?: string } }[];
  resources?: { name?: string; kind?: string; namespaced?: boolean; verbs?: string[]; shortNames?: string[] }[];
}

const mostKinds = 3000;
const mostGroups = 300;
const atOnce = 4;

const groupForm = /^([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)?$/;
const versionForm = /^v[a-z0-9]{1,30}$/;
const resourceForm = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;
const kindForm = /^[A-Za-z0-9]{1,253}$/;
const words = (value: unknown): string[] =>
  Array.isArray(value)
    ? value.filter((word): word is string => typeof word === "string" && resourceForm.test(word)).slice(0, 20)
    : [];

/** Kinds collects what is found: each resource once, in the first of its versions, which is the preferred one. */
class Kinds {
  readonly found = new Map<string, Kind>();

  add(kind: Kind) {
    const key = resourceOf(kind);
    const isNamed = groupForm.test(kind.group) && versionForm.test(kind.version) && resourceForm.test(kind.resource);
    if (!isNamed || !kindForm.test(kind.kind) || !kind.verbs.includes("list")) return;
    if (!this.found.has(key) && this.found.size < mostKinds) this.found.set(key, kind);
  }

  addAll({ items = [] }: RawDiscovery): string[] {
    const stale: string[] = [];
    for (const { metadata, versions = [] } of items) {
      const group = String(metadata?.name ?? "");
      for (const { version = "", freshness, resources = [] } of versions) {
        if (freshness === "Stale" && !stale.includes(group)) stale.push(group);
        for (const each of resources) {
          this.add({
            group,
            version: String(version),
            resource: String(each.resource ?? ""),
            kind: String(each.responseKind?.kind ?? ""),
            isNamespaced: each.scope === "Namespaced",
            verbs: words(each.verbs),
            shortNames: words(each.shortNames),
          });
        }
      }
    }
    return stale;
  }

  addOlder(group: string, version: string, { resources = [] }: RawDiscovery) {
    for (const each of resources) {
      this.add({
        group,
        version,
        // A subresource has a slash in its name, and is not in the form.
        resource: String(each.name ?? ""),
        kind: String(each.kind ?? ""),
        isNamespaced: each.namespaced === true,
        verbs: words(each.verbs),
        shortNames: words(each.shortNames),
      });
    }
  }
}

/** Returns how far down a group is: the core, then those of Kubernetes, then what the cluster has beyond them. */
export function rankOfGroup(group: string): number {
  if (group === "") return 0;
  if (!group.includes(".")) return 1;
  return group.endsWith(".k8s.io") ? 2 : 3;
}

/** Returns the kinds of a cluster that can be listed. */
export async function loadDiscovery(clusters: Clusters, cluster: string, signal: AbortSignal): Promise<Discovery> {
  const kinds = new Kinds();
  const missing: string[] = [];
  const [core, groups] = await Promise.all(
    ["/api", "/apis"].map((path) => readJson<RawDiscovery>(clusters, cluster, path, signal, aggregated)),
  );
  const asked: string[] = [];
  for (const answer of [core, groups]) {
    if (answer?.kind === "APIGroupDiscoveryList") missing.push(...kinds.addAll(answer));
    else {
      asked.push(...words(answer?.versions));
      for (const group of (answer?.groups ?? []).slice(0, mostGroups)) {
        const preferred = group.preferredVersion?.groupVersion ?? group.versions?.[0]?.groupVersion;
        if (typeof preferred === "string") asked.push(preferred);
      }
    }
  }
  const ask = async () => {
    for (let groupVersion = asked.shift(); groupVersion !== undefined; groupVersion = asked.shift()) {
      const [version = "", group = ""] = groupVersion.split("/").reverse();
      try {
        kinds.addOlder(
          group,
          version,
          await readJson<RawDiscovery>(clusters, cluster, apiPath(groupVersion), signal, "application/json"),
        );
      } catch (thrown) {
        if (signal.aborted) throw thrown;
        missing.push(group);
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, ask));
  const sorted = [...kinds.found.values()].sort(
    (a, b) =>
      rankOfGroup(a.group) - rankOfGroup(b.group) ||
      (a.group < b.group ? -1 : a.group > b.group ? 1 : 0) ||
      a.kind.localeCompare(b.kind, "en"),
  );
  return { kinds: sorted, missing: missing.filter((group) => groupForm.test(group)) };
}

const mostVersions = 4;

/**
 * Returns one kind of a cluster by its resource, or undefined if the cluster has none. It asks for the group alone, so
 * that many clusters can be asked.
 */
export async function findKind(
  clusters: Clusters,
  cluster: string,
  { group, resource }: Pick<Kind, "group" | "resource">,
  signal: AbortSignal,
): Promise<Kind | undefined> {
  const read = <T extends object>(path: string): Promise<Partial<T>> =>
    readJson<Partial<T>>(clusters, cluster, path, signal).catch((thrown) => {
      if (hasCode(thrown, 404)) return {};
      throw thrown;
    });
  let versions: unknown[] = ["v1"];
  if (group !== "") {
    const { preferredVersion, groupVersions = [] } = groupOf(
      await read<RawGroup>(`/apis/${encodeURIComponent(group)}`),
    );
    versions = [...new Set([preferredVersion, ...groupVersions])];
  }
  for (const groupVersion of versions.slice(0, mostVersions)) {
    if (typeof groupVersion !== "string") continue;
    const kinds = new Kinds();
    kinds.addOlder(group, groupVersion.split("/").at(-1) ?? "", await read<RawDiscovery>(apiPath(groupVersion)));
    const found = kinds.found.get(resourceOf({ group, resource }));
    if (found) return found;
  }
  return undefined;
}

/** RawGroup is an APIGroup. */
interface RawGroup {
  preferredVersion?: { groupVersion?: string };
  versions?: unknown[];
}

const groupOf = ({ preferredVersion, versions }: RawGroup) => ({
  preferredVersion: preferredVersion?.groupVersion,
  groupVersions: (Array.isArray(versions) ? versions : []).map(
    (each) => (each as { groupVersion?: unknown } | undefined)?.groupVersion,
  ),
});
