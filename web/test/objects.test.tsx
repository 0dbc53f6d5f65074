// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { clusterApi, failure } from "./cluster.ts";
import { refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const object = (kind: string, name: string, health = Health.HEALTHY, message = "", group = "") => ({
  ref: { group, version: "v1", kind, namespace: "shop", name },
  health,
  ...(message && { problem: { reason: Reason.HEALTH_TIMEOUT, message } }),
});

// Sorted as the agent sorts them.
const inventory = [
  object("ConfigMap", "cart"),
  object("Namespace", "shop"),
  object("Deployment", "cart", Health.DEGRADED, "1 of 2 replicas are ready", "apps"),
  object("Deployment", "search", Health.HEALTHY, "", "apps"),
  object("ValidatingWebhookConfiguration", "guard", Health.HEALTHY, "", "admissionregistration.k8s.io"),
];

const pods = [
  { name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9" },
  { name: "cart-7d4b9-bbbbb", owner: "cart-7d4b9", status: "CrashLoopBackOff", ready: "0/1", restarts: "12 (3m ago)" },
  { name: "search-7d4b9-ccccc", owner: "search-7d4b9" },
];

const agent = (objects = inventory) => ({
  getInventory: ({ page }: { page?: { token: string } | undefined }) => {
    const from = Number(page?.token || 0);
    return {
      objects: objects.slice(from, from + 1000),
      nextPageToken: objects[from + 1000] ? String(from + 1000) : "",
    };
  },
});

const row = (name: string | RegExp) => page.getByRole("row", { name });
const outline = () => page.getByRole("treegrid");

describe("a service's objects", () => {
  test("they are in the order of the agent, and what is wrong is unfolded to its pods", async () => {
    const { kube } = clusterApi({ pods, deployments: ["cart", "search"] });
    open("/services/cart@berlin?tab=objects", { agent: agent(), kube });
    await expect.element(page.getByText("1 of 5 objects needs attention")).toBeVisible();
    await expect.element(row(/cart-7d4b9-bbbbb.*CrashLoopBackOff/)).toBeVisible();
    await expect.element(page.getByText("0/1 ready · 12 restarts, the last 3m ago · on node-0")).toBeVisible();
    const kinds = outline()
      .getByRole("row")
      .elements()
      .map((each) => each.textContent?.match(/^[A-Z]\w+/)?.[0]);
    expect(kinds.slice(1)).toEqual([
      "Namespace",
      "ConfigMap",
      "Deployment",
      "ReplicaSet",
      "Pod",
      "Pod",
      "Deployment",
      "ValidatingWebhookConfiguration",
    ]);
    // What nobody looks at costs the cluster nothing.
    expect(page.getByText("search-7d4b9-ccccc").elements()).toHaveLength(0);
    await expect.element(page.getByText("leat inventory service/cart@berlin")).toBeVisible();
    await expectAccessible();
  });

  test("the keyboard unfolds, leads in and out, and folds", async () => {
    const { kube } = clusterApi({ pods, deployments: ["cart", "search"] });
    open("/services/cart@berlin?tab=objects", { agent: agent(), kube });
    // The first row in the order of tabs is what is wrong.
    const cart = row(/^Deployment cart/);
    await expect.element(cart).toHaveAttribute("tabindex", "0");
    await expect.element(cart).toHaveAttribute("aria-expanded", "true");
    await expect.element(row(/bbbbb/)).toHaveAttribute("aria-level", "3");
    (cart.element() as HTMLElement).focus();
    await userEvent.keyboard("{ArrowRight}");
    await expect.element(row(/^ReplicaSet/)).toHaveFocus();
    await userEvent.keyboard("{ArrowLeft}{ArrowLeft}");
    await expect.element(cart).toHaveFocus();
    await userEvent.keyboard("{ArrowLeft}");
    await expect.element(cart).toHaveAttribute("aria-expanded", "false");
    await userEvent.keyboard("{ArrowDown}");
    await expect.element(row(/^Deployment search/)).toHaveFocus();
    await userEvent.keyboard("{ArrowRight}");
    await expect.element(row(/search-7d4b9-ccccc/)).toBeVisible();
    await userEvent.keyboard("{End}");
    await expect.element(row(/guard/)).toHaveFocus();
    await userEvent.keyboard("{Home}");
    await expect.element(row(/^Namespace/)).toHaveFocus();
  });

  test("many of a kind are one row with counts, and ten thousand pods are bounded", async () => {
    const many = Array.from({ length: 3000 }, (_, index) =>
      object("ConfigMap", `config-${index}`, index === 2999 ? Health.MISSING : Health.HEALTHY),
    );
    const crowd = Array.from({ length: 10_000 }, (_, index) => ({ name: `cart-7d4b9-${index}`, owner: "cart-7d4b9" }));
    const { kube } = clusterApi({ pods: crowd, deployments: ["cart"] });
    open("/services/cart@berlin?tab=objects", {
      agent: agent([...many, object("Deployment", "cart", Health.PROGRESSING, "", "apps")]),
      kube,
    });
    await expect.element(row(/ConfigMap × 3,000/)).toBeInTheDocument();
    await expect.element(page.getByText("1 missing, 2,999 healthy")).toBeInTheDocument();
    await expect.element(row(/config-2999/)).toBeInTheDocument();
    (row(/ConfigMap × 3,000/).element() as HTMLElement).click();
    await expect.element(row(/Pod × 500/)).toBeVisible();
    await expect.element(page.getByText("9,500 pods more not shown")).toBeVisible();
    expect(outline().getByRole("row").elements().length).toBeLessThan(80);
  });

  test("the hub's refusal has its words, and what would allow it", async () => {
    open("/services/cart@berlin?tab=objects", {
      agent: {
        getInventory: () => {
          throw refusal(Code.PermissionDenied, "ACCESS_DENIED", 'you lack the permission "get services/inventory"');
        },
      },
    });
    await expect.element(page.getByText("Your bindings do not allow this")).toBeVisible();
    await expect.element(page.getByText('you lack the permission "get services/inventory"')).toBeVisible();
    await expect.element(page.getByText("leat access berlin")).toBeVisible();
    expect(page.getByRole("button", { name: "Try again" }).elements()).toHaveLength(0);
    await expectAccessible();
  });

  test("the cluster's own refusal is beside what the agent says", async () => {
    const words = 'deployments.apps "cart" is forbidden: User "leat:user:ada" cannot get resource "deployments"';
    const { kube } = clusterApi({ before: () => failure(403, words) });
    open("/services/cart@berlin?tab=objects", { agent: agent(), kube });
    await expect.element(page.getByText("The cluster does not allow this")).toBeVisible();
    await expect.element(page.getByText(words)).toBeVisible();
    await expect.element(row(/^Deployment cart/)).toBeVisible();
    await expectAccessible();
  });

  test("a cluster that is away leaves no tab empty", async () => {
    open("/services/cart@berlin?tab=objects", {
      agent: {
        getInventory: () => {
          throw refusal(Code.Unavailable, "AGENT_OFFLINE", 'the agent of cluster "berlin" is not connected');
        },
      },
    });
    await expect.element(page.getByText("The cluster is not connected")).toBeVisible();
    await expect.element(page.getByRole("button", { name: "Try again" })).toBeVisible();
    // The hub itself answers.
    await expect.element(page.getByText("Live", { exact: true })).toBeVisible();
    await expectAccessible();
  });

  test("a service without objects says so", async () => {
    open("/services/cart@berlin?tab=objects", { agent: agent([]) });
    await expect.element(page.getByText("No object", { exact: true })).toBeVisible();
    await expectAccessible();
  });

  test("what a cluster writes is text", async () => {
    const evil = '<img src=x onerror="document.title=1">\u202e javascript:alert(1)';
    open("/services/cart@berlin?tab=objects", {
      agent: agent([object("Deployment", "cart", Health.DEGRADED, evil.repeat(20_000), "apps")]),
      kube: () => failure(404, evil),
    });
    await expect.element(row(/^Deployment cart/)).toBeVisible();
    await expect.element(page.getByText("The cluster has no such object")).toBeVisible();
    expect(document.querySelector("img, main a[href^=javascript]")).toBeNull();
    await expectAccessible();
  });
});
