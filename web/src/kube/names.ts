// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Service } from "../gen/leat/fleet/v1/resources_pb";

// How the tunnel and agents name clusters and services: by a path, NAME in the project default and PROJECT.NAME in every
// other one.

/** Returns an object's path, as addresses of the hub hold it where a slash could not be. */
export const pathOf = (project: string, name: string): string =>
  project === "" || project === "default" ? name : `${project}.${name}`;

/** Returns the path of a cluster that an object of the project names. */
export function clusterPath(cluster: string, project: string): string {
  const slash = cluster.indexOf("/");
  return slash < 0 ? pathOf(project, cluster) : pathOf(cluster.slice(0, slash), cluster.slice(slash + 1));
}

/** Place is where a service runs, as its cluster's agent names it. */
export interface Place {
  cluster: string;
  service: string;
  /** The namespace of objects that name none. */
  namespace: string;
}

export const placeOf = ({ metadata, spec }: Service): Place => ({
  cluster: clusterPath(spec?.cluster ?? "", metadata?.project ?? ""),
  service: pathOf(metadata?.project ?? "", metadata?.name ?? ""),
  namespace: spec?.namespace || "default",
});
