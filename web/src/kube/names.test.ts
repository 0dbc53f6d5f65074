// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ServiceSchema } from "../gen/leat/fleet/v1/resources_pb";
import { clusterPath, placeOf } from "./names.ts";

test("a cluster is of the service's project unless it names another", () => {
  expect(clusterPath("berlin", "")).toBe("berlin");
  expect(clusterPath("berlin", "default")).toBe("berlin");
  expect(clusterPath("berlin", "shop")).toBe("shop.berlin");
  expect(clusterPath("edge/berlin", "shop")).toBe("edge.berlin");
  expect(clusterPath("default/berlin", "shop")).toBe("berlin");
});

test("an agent knows a service by its project and its name", () => {
  const service = create(ServiceSchema, {
    metadata: { project: "shop", name: "cart" },
    spec: { cluster: "default/berlin" },
  });
  expect(placeOf(service)).toEqual({ cluster: "berlin", service: "shop.cart", namespace: "default" });
});
