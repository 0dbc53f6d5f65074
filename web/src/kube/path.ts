// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { KnownError } from "../hub/failure.ts";

/**
 * Returns the path of the Kubernetes API that has these segments below a group and version, such as "v1" or "apps/v1".
 * Names come from clusters, which may send any text. A browser resolves the segments "." and "..", escaped or not, so a
 * path with one would lead elsewhere at the hub, with the person's token: it is refused.
 */
export function apiPath(groupVersion: string, ...segments: string[]): string {
  const all = [...groupVersion.split("/"), ...segments];
  if (all.some((segment) => segment === "" || segment === "." || segment === "..")) {
    throw new KnownError({ kind: "invalid", reason: "", message: "this name is not one of Kubernetes", metadata: {} });
  }
  const path = all.map(encodeURIComponent).join("/");
  return groupVersion.includes("/") ? `/apis/${path}` : `/api/${path}`;
}

/** Returns the path of a resource in a namespace, or in the whole cluster if the namespace is empty. */
export const resourcePath = (groupVersion: string, namespace: string, ...segments: string[]): string =>
  apiPath(groupVersion, ...(namespace === "" ? [] : ["namespaces", namespace]), ...segments);
