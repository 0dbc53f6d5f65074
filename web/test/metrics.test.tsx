// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { quantity } from "../src/kube/metrics.ts";
import { clusterApi, failure, offline } from "./cluster.ts";
import { refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const json = (body: unknown) => new Response(JSON.stringify(body));
const usage = (cpu: string, memory: string) => ({
  timestamp: "2026-11-28T11:17:42Z",
  window: "20s",
  usage: { cpu, memory },
});

const nodes = {
  items: [
    { metadata: { name: "node-a" }, status: { allocatable: { cpu: "4", memory: "8Gi" } } },
    { metadata: { name: "node-b" }, status: { allocatable: { cpu: "3920m", memory: "7Gi" } } },
    { metadata: { name: "node-new" }, status: { allocatable: { cpu: "4", memory: "8Gi" } } },
  ],
};
const nodeUsage = {
  items: [
    { metadata: { name: "node-a" }, ...usage("156340289n", "2Gi") },
    { metadata: { name: "node-b" }, ...usage("3822m", "6881280Ki") },
    { metadata: { name: "<b>gone</b>" }, ...usage("1", "1Ki") },
  ],
};

const ofNodes = (url: URL) => {
  if (url.pathname === "/apis/metrics.k8s.io/v1beta1/nodes") return json(nodeUsage);
  return url.pathname === "/api/v1/nodes" ? json(nodes) : undefined;
};

const owner = [{ kind: "ReplicaSet", name: "cart-7d4b9", uid: "x" }];
const pod = (name: string, resources: object) => ({
  metadata: { name, namespace: "shop", ownerReferences: owner },
  spec: { containers: [{ name: "web", resources }] },
});
const pods = {
  items: [
    pod("cart-7d4b9-aaaaa", { limits: { cpu: "500m", memory: "128Mi" }, requests: { cpu: "100m", memory: "64Mi" } }),
    pod("cart-7d4b9-bbbbb", { requests: { cpu: "100m", memory: "64Mi" } }),
    pod("cart-7d4b9-ccccc", {}),
    pod("cart-7d4b9-ddddd", {}),
  ],
};
const podUsage = {
  items: [
    { metadata: { name: "cart-7d4b9-aaaaa", namespace: "shop" }, containers: [usage("50m", "126Mi")] },
    { metadata: { name: "cart-7d4b9-bbbbb", namespace: "shop" }, containers: [usage("5m", "32Mi")] },
    { metadata: { name: "cart-7d4b9-ccccc", namespace: "shop" }, containers: [usage("1500m", "1Gi")] },
  ],
};
const agent = {
  getInventory: () => ({
    objects: [
      {
        ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "cart" },
        health: Health.HEALTHY,
      },
    ],
  }),
};

/** Returns the text of the row with that name, once there is one. */
const textOf = (name: string) =>
  page
    .getByRole("row")
    .elements()
    .map((row) => row.textContent)
    .find((text) => text?.includes(name)) ?? "";

test.each([
  ["0", 0],
  ["250m", 0.25],
  ["156340289n", 0.156340289],
  ["1.5", 1.5],
  [".5", 0.5],
  ["128Mi", 134_217_728],
  ["1e3", 1000],
  ["2E", 2e18],
  ["1k", 1000],
  ["", undefined],
  ["1 Mi", undefined],
  ["1Kib", undefined],
  ["0x10", undefined],
  [undefined, undefined],
])("the quantity %s is %s", (text, value) => {
  const read = quantity(text);
  if (value === undefined) expect(read).toBeUndefined();
  else expect(read).toBeCloseTo(value, 9);
});

describe("nodes", () => {
  test("are shown with what they use of what pods may have, the fullest first", async () => {
    const { router } = open("/clusters/berlin", clusterApi({ before: ofNodes }));
    await page.getByRole("button", { name: "Show CPU and memory of nodes" }).click();
    await expect.poll(() => textOf("node-b")).toMatch(/98%.*3\.82 of 3\.92 \(allocatable\).*94%.*of 7\.52 GB/);
    await expect.poll(() => textOf("node-a")).toMatch(/4%.*156 m of 4 .*25%/);
    await expect.element(page.getByText("1 node without figures", { exact: false })).toBeVisible();
    await expect.element(page.getByText("kubectl top nodes")).toBeVisible();
    expect(document.body.textContent).not.toContain("gone");
    expect(router.state.location.search).toEqual({ nodes: true });
    await expectAccessible();
    await page.getByRole("button", { name: "Hide CPU and memory of nodes" }).click();
    await expect.poll(() => router.state.location.search).toEqual({});
  });

  test.each([
    ["never had one", () => failure(404, "the server could not find the requested resource")],
    ["has one that does not answer", () => failure(503, "service unavailable")],
  ])("a cluster that %s says what to do", async (_, answer) => {
    open(
      "/clusters/berlin?nodes=true",
      clusterApi({ before: (url) => (url.pathname.includes("metrics") ? answer() : ofNodes(url)) }),
    );
    await expect.element(page.getByText("This cluster has no metrics-server")).toBeVisible();
    await expectAccessible();
  });

  test("a cluster that is away, or refuses, has its own words", async () => {
    open("/clusters/berlin?nodes=true", clusterApi({ before: offline }));
    await expect.element(page.getByText("The cluster is not connected")).toBeVisible();
  });
});

describe("pods of a service", () => {
  const before = (url: URL) => {
    if (url.pathname === "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods") return json(podUsage);
    return url.pathname === "/api/v1/namespaces/shop/pods" ? json(pods) : undefined;
  };

  test("are shown with what they use of their limits, or else of their requests", async () => {
    open("/services/cart@berlin?tab=metrics", { agent, ...clusterApi({ before, deployments: ["cart"] }) });
    await expect.poll(() => textOf("aaaaa")).toMatch(/10%.*50 m of 500 m \(limit\).*98%/);
    await expect.poll(() => textOf("bbbbb")).toMatch(/5%.*5 m of 100 m \(request\).*50%/);
    await expect.poll(() => textOf("ccccc")).toMatch(/1\.5, no limit and no request/);
    await expect.element(page.getByText("1 pod without figures", { exact: false })).toBeVisible();
    await expect.element(page.getByText("kubectl top pods -n shop")).toBeVisible();
    await expectAccessible();
  });

  test("a refusal of the cluster has its words", async () => {
    const words = 'pods.metrics.k8s.io is forbidden: User "leat:user:ada" cannot list resource "pods"';
    open("/services/cart@berlin?tab=metrics", {
      agent,
      ...clusterApi({
        before: (url) => (url.pathname.includes("metrics.k8s.io") ? failure(403, words) : before(url)),
        deployments: ["cart"],
      }),
    });
    await expect.element(page.getByText(words)).toBeVisible();
    await expectAccessible();
  });

  test("what stands in the way of charts and figures is said once", async () => {
    open("/services/cart@berlin?tab=metrics", {
      agent: {
        ...agent,
        queryMetrics() {
          throw refusal(Code.Unavailable, "AGENT_OFFLINE", 'the agent of cluster "berlin" is not connected');
        },
      },
      ...clusterApi({ before: offline }),
    });
    const said = page.getByText("The cluster is not connected");
    await expect.element(said.first()).toBeVisible();
    await expect.poll(() => document.querySelector("main [role=status]")).toBeNull();
    expect(said.elements()).toHaveLength(1);
  });
});
