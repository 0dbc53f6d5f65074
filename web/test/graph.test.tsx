// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { clusterApi } from "./cluster.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const object = (kind: string, name: string, health = Health.HEALTHY, group = "") => ({
  ref: { group, version: "v1", kind, namespace: "shop", name },
  health,
});

const inventory = [
  object("ConfigMap", "cart"),
  object("Deployment", "cart", Health.DEGRADED, "apps"),
  object("Deployment", "search", Health.HEALTHY, "apps"),
];

const pods = [
  { name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9" },
  { name: "cart-7d4b9-bbbbb", owner: "cart-7d4b9", status: "CrashLoopBackOff", ready: "0/1" },
  { name: "search-7d4b9-ccccc", owner: "search-7d4b9" },
];

function openGraph(objects = inventory, search = "&view=graph") {
  const { kube } = clusterApi({ pods, deployments: ["cart", "search"] });
  return open(`/services/cart@berlin?tab=objects${search}`, {
    agent: {
      getInventory: ({ page }) => {
        const from = Number(page?.token || 0);
        const nextPageToken = objects[from + 1000] ? String(from + 1000) : "";
        return { objects: objects.slice(from, from + 1000), nextPageToken };
      },
    },
    kube,
  });
}

const item = (name: string | RegExp) => page.getByRole("treeitem", { name });
const tree = () => page.getByRole("tree", { name: "Graph of the objects of cart@berlin" });

describe("the graph of a service's objects", () => {
  test("it is a view of the outline, by the address, and unfolds the same", async () => {
    const { router } = openGraph(inventory, "");
    await expect.element(page.getByRole("treegrid")).toBeVisible();
    const graph = page.getByRole("link", { name: "Graph" });
    await expect.element(graph).not.toHaveAttribute("aria-current");
    await graph.click();
    await expect.element(graph).toHaveAttribute("aria-current");
    await expect.element(page.getByRole("link", { name: "Outline" })).not.toHaveAttribute("aria-current");
    await expect.element(item("Pod · CrashLoopBackOff cart-7d4b9-bbbbb")).toBeVisible();
    expect(router.state.location.search).toEqual({ tab: "objects", view: "graph" });
    await expectAccessible();
    await item("Deployment · Degraded cart").click();
    await expect.element(item(/bbbbb/)).not.toBeInTheDocument();
    await page.getByRole("link", { name: "Outline" }).click();
    await expect.element(page.getByRole("row", { name: /^Deployment cart/ })).toHaveAttribute("aria-expanded", "false");
    expect(router.state.location.search).toEqual({ tab: "objects" });
  });

  test("the keyboard moves, unfolds, changes the size, and opens the logs of a pod", async () => {
    const { router } = openGraph();
    const cart = item("Deployment · Degraded cart");
    // What is not well is first in the order of tabs.
    await expect.element(cart).toHaveAttribute("tabindex", "0");
    await expect.element(item(/bbbbb/)).toHaveAttribute("aria-level", "3");
    (cart.element() as SVGElement).focus();
    await userEvent.keyboard("{ArrowRight}");
    await expect.element(item(/^ReplicaSet/)).toHaveFocus();
    await userEvent.keyboard("{ArrowLeft}{ArrowLeft}{ArrowLeft}");
    await expect.element(cart).toHaveFocus();
    await expect.element(cart).toHaveAttribute("aria-expanded", "false");
    await userEvent.keyboard("{ArrowDown}{ArrowRight}");
    await expect.element(item(/search-7d4b9-ccccc/)).toBeVisible();
    await userEvent.keyboard("+");
    await expect.element(page.getByText("150 %")).toBeVisible();
    await userEvent.keyboard("--");
    await expect.element(page.getByText("75 %")).toBeVisible();
    await userEvent.keyboard("0{End}");
    await expect.element(item(/search-7d4b9-ccccc/)).toHaveFocus();
    await userEvent.keyboard("{Enter}");
    await expect.poll(() => router.state.location.search).toEqual({ tab: "logs", pod: "search-7d4b9-ccccc" });
  });

  test("ten thousand objects are folded, and a screen of them is in the page when they are not", async () => {
    const many = Array.from({ length: 10_000 }, (_, index) => object("ConfigMap", `config-${index}`));
    openGraph(many);
    const group = item("10,000 healthy ConfigMap × 10,000");
    await expect.element(group).toHaveAttribute("aria-expanded", "false");
    await group.click();
    await expect.element(item("ConfigMap · Healthy config-0")).toBeInTheDocument();
    expect(tree().getByRole("treeitem").elements().length).toBeLessThan(60);
    (group.element() as SVGElement).focus();
    await userEvent.keyboard("{End}");
    await expect.element(item("ConfigMap · Healthy config-9999")).toHaveFocus();
    await expect.element(item("ConfigMap · Healthy config-0")).not.toBeInTheDocument();
    expect(tree().getByRole("treeitem").elements().length).toBeLessThan(60);
  });

  test("names of a cluster are text", async () => {
    const evil = '<img src=x onerror="document.title=1">\u202e';
    openGraph([object("ConfigMap", evil.repeat(500))]);
    await expect.element(tree().getByRole("treeitem")).toBeVisible();
    expect(document.querySelector("#app img")).toBeNull();
    await expectAccessible();
  });
});
