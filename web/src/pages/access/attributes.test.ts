// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { attributesOf } from "./attributes.ts";

test.each([
  ["pods", { apiGroup: "", resource: "pods" }],
  ["pods/log", { apiGroup: "", resource: "pods/log" }],
  ["deployments.apps", { apiGroup: "apps", resource: "deployments" }],
  ["deployments.apps/scale", { apiGroup: "apps", resource: "deployments/scale" }],
  ["ingresses.networking.k8s.io", { apiGroup: "networking.k8s.io", resource: "ingresses" }],
  ["*", { apiGroup: "", resource: "*" }],
])("%s is a resource", (written, attributes) => {
  expect(attributesOf("get", written, "shop")).toEqual({ verb: "get", namespace: "shop", ...attributes });
});

test("a path is no resource", () => {
  expect(attributesOf("get", "/apis/x.y", "")).toEqual({ verb: "get", nonResourcePath: "/apis/x.y", namespace: "" });
});
