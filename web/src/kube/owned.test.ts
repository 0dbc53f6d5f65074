// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { Health } from "../gen/leat/type/v1/state_pb";
import { podHealth, selectorText } from "./owned.ts";
import { rankOf } from "./refs.ts";

test("a pod is as kubectl's word and count say", () => {
  for (const [word, ready, want] of [
    ["Running", "2/2", Health.HEALTHY],
    ["Running", "1/2", Health.PROGRESSING],
    ["Completed", "0/1", Health.HEALTHY],
    ["ContainerCreating", "0/1", Health.PROGRESSING],
    ["Init:1/3", "0/1", Health.PROGRESSING],
    ["Init:Error", "0/1", Health.DEGRADED],
    ["Init:CrashLoopBackOff", "0/1", Health.DEGRADED],
    ["CrashLoopBackOff", "1/2", Health.DEGRADED],
    ["ImagePullBackOff", "0/1", Health.DEGRADED],
    ["Evicted", "0/1", Health.DEGRADED],
    ["Terminating", "1/1", Health.TERMINATING],
    ["", "", Health.DEGRADED],
  ] as const) {
    expect(podHealth(word, ready), word).toBe(want);
  }
});

test("a selector that this version cannot write selects nothing, and never all", () => {
  expect(selectorText({ matchLabels: { app: "web", tier: "front" } })).toBe("app=web,tier=front");
  expect(
    selectorText({
      matchExpressions: [
        { key: "a", operator: "In", values: ["1", "2"] },
        { key: "b", operator: "NotIn", values: ["3"] },
        { key: "c", operator: "Exists" },
        { key: "d", operator: "DoesNotExist" },
      ],
    }),
  ).toBe("a in (1,2),b notin (3),c,!d");
  expect(selectorText({})).toBe("");
  expect(selectorText({ matchLabels: { app: "web" }, matchExpressions: [{ key: "a", operator: "Gt" }] })).toBe("");
});

test("kinds are in the order in which agents apply them", () => {
  const kinds = [
    ["", "Namespace"],
    ["", "ConfigMap"],
    ["rbac.authorization.k8s.io", "Role"],
    ["apps", "Deployment"],
    ["example.com", "Namespace"],
    ["admissionregistration.k8s.io", "ValidatingAdmissionPolicy"],
  ] as const;
  expect(kinds.map(([group, kind]) => rankOf({ group, kind, namespace: "", name: "" }))).toEqual([0, 1, 1, 2, 2, 3]);
});
