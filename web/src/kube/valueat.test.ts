// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { valueAt } from "./valueat.ts";

const object = {
  metadata: { annotations: { "kubectl.kubernetes.io/restartedAt": "now", kubectl: "x" }, finalizers: ["a", "b]c"] },
  spec: {
    replicas: 2,
    containers: [
      { name: "web", image: "web:1", ports: [{ containerPort: 80, protocol: "TCP", hostPort: 8080 }] },
      { name: "log", image: "log:1" },
    ],
  },
};

test.each([
  [".spec.replicas", 2],
  [".metadata.annotations.kubectl.kubernetes.io/restartedAt", "now"],
  ['.spec.containers[name="log"].image', "log:1"],
  ['.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].hostPort', 8080],
  ['.metadata.finalizers[="b]c"]', "b]c"],
  [".metadata.finalizers[0]", "a"],
  ['.spec.containers[name="no"].image', undefined],
  [".spec.missing", undefined],
  [".spec.replicas.deeper", undefined],
  ["spec", undefined],
  [".spec.containers[", undefined],
  [".constructor", undefined],
])("the value at %s is %j", (path, value) => {
  expect(valueAt(object, path)).toEqual(value);
});
