// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type AccessRequest,
  type AccessRequestSpec,
  AccessRequestState,
} from "../../gen/leat/fleet/v1/access_request_pb";

interface Words {
  allClusters: string;
  allProjects: string;
  labels: string;
  clusters: (names: string[]) => string;
  projects: (names: string[]) => string;
  services: (names: string[]) => string;
  repositories: (names: string[]) => string;
}

/** Returns what a request is about, in words. */
export function scopeOf({ clusters, projects, services, repositories }: AccessRequestSpec, words: Words): string {
  return [
    projects?.all && words.allProjects,
    projects && projects.names.length > 0 && words.projects(projects.names),
    clusters?.all && words.allClusters,
    clusters && clusters.names.length > 0 && words.clusters(clusters.names),
    clusters?.labels && words.labels,
    services.length > 0 && words.services(services),
    repositories.length > 0 && words.repositories(repositories),
  ]
    .filter(Boolean)
    .join("; ");
}

const madeAt = ({ metadata }: AccessRequest) => (metadata?.createTime ? timestampMs(metadata.createTime) : 0);
const isOpen = ({ status }: AccessRequest) => status?.state === AccessRequestState.OPEN;

/** Orders requests: open ones first, and of two the newer one. */
export function newestFirst(a: AccessRequest, b: AccessRequest): number {
  return Number(isOpen(b)) - Number(isOpen(a)) || madeAt(b) - madeAt(a);
}
