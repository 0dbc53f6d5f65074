// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { apiPath, resourcePath } from "./path.ts";

test("the core group has a root of its own", () => {
  expect(resourcePath("v1", "shop", "pods")).toBe("/api/v1/namespaces/shop/pods");
  expect(resourcePath("apps/v1", "shop", "deployments", "web")).toBe("/apis/apps/v1/namespaces/shop/deployments/web");
  expect(resourcePath("v1", "", "nodes", "a")).toBe("/api/v1/nodes/a");
});

test("no name leads out of its path", () => {
  for (const name of ["..", ".", "", "%2e%2e", "a/../../b", "..\\..", "?x=", "#x", "..;/", "\u0000"]) {
    let path: string;
    try {
      path = apiPath("v1", "namespaces", name, "pods");
    } catch {
      continue;
    }
    const { pathname, search, hash } = new URL(`/clusters/berlin${path}`, "https://leat.example.com");
    expect(pathname.startsWith("/clusters/berlin/api/v1/namespaces/"), name).toBe(true);
    expect(pathname.endsWith("/pods"), name).toBe(true);
    expect(pathname.split("/"), name).toHaveLength(8);
    expect(search + hash, name).toBe("");
  }
  for (const name of ["..", ".", ""]) expect(() => apiPath("v1", "namespaces", name)).toThrow("not one of Kubernetes");
});
