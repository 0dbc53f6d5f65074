// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { clusterApi, failure, offline } from "./cluster.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

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
const pods = [
  { name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9", containers: ["web", "proxy"] },
  { name: "cart-7d4b9-bbbbb", owner: "cart-7d4b9" },
];
const at = (second: number) => `2026-11-28T11:17:${String(second).padStart(2, "0")}.5Z`;
const logs = {
  "cart-7d4b9-aaaaa web": `${at(1)} first\n${at(3)} third \u001b[31mERROR\u001b[0m\n`,
  "cart-7d4b9-aaaaa proxy": `${at(4)} fourth of the proxy\n`,
  "cart-7d4b9-bbbbb web": `${at(2)} second\n`,
  "cart-7d4b9-bbbbb web previous": `${at(0)} the last words\n`,
};

const lines = () =>
  page
    .getByRole("grid")
    .getByRole("row")
    .elements()
    .map((row) => row.lastElementChild?.textContent);

describe("a pod's logs", () => {
  const pod = "/clusters/berlin/resources/core/v1/pods/shop/cart-7d4b9-aaaaa";

  test("are a tab of its page, with its containers merged by time", async () => {
    const { router } = open(pod, { ...clusterApi({ pods, logs }) });
    await page.getByRole("tab", { name: "Logs" }).click();
    await expect.element(page.getByText("3 lines of 2 containers")).toBeVisible();
    expect(lines()).toEqual(["first", "third ERROR", "fourth of the proxy"]);
    await expect
      .element(page.getByText("kubectl logs cart-7d4b9-aaaaa -n shop --all-containers -f", { exact: true }))
      .toBeVisible();
    await expect.element(page.getByRole("combobox", { name: "Pod" })).not.toBeInTheDocument();
    await expectAccessible();
    await page.getByRole("combobox", { name: "Container" }).selectOptions("proxy");
    await expect.element(page.getByText("1 line of 1 container")).toBeVisible();
    await page.getByRole("textbox", { name: "Find in the logs" }).fill("nothing like it");
    const search = { tab: "logs", container: "proxy", find: "nothing like it" };
    await expect.poll(() => router.state.location.search).toEqual(search);
    await page.getByRole("tab", { name: "Overview" }).click();
    await expect.poll(() => router.state.location.search).toEqual({});
  });

  test("belong to pods alone", async () => {
    open("/clusters/berlin/resources/apps/v1/deployments/shop/cart?tab=logs", {
      ...clusterApi({ pods, deployments: ["cart"], logs }),
    });
    await expect.element(page.getByRole("heading", { name: "What it is" })).toBeVisible();
    await expect.element(page.getByRole("tab", { name: "Logs" })).not.toBeInTheDocument();
  });
});

describe("a service's logs", () => {
  test("all containers are merged by time", async () => {
    open("/services/cart@berlin?tab=logs", { agent, ...clusterApi({ pods, deployments: ["cart"], logs }) });
    await expect.element(page.getByText("4 lines of 3 containers")).toBeVisible();
    expect(lines()).toEqual(["first", "second", "third ERROR", "fourth of the proxy"]);
    await expect
      .element(page.getByText("kubectl logs deployment/cart --all-pods -n shop --all-containers -f", { exact: true }))
      .toBeVisible();
    await expectAccessible();
  });

  test("what is chosen and looked for is in the address", async () => {
    const { router } = open("/services/cart@berlin?tab=logs", {
      agent,
      ...clusterApi({ pods, deployments: ["cart"], logs }),
    });
    await expect.element(page.getByText("4 lines of 3 containers")).toBeVisible();
    await page.getByRole("textbox", { name: "Find in the logs" }).fill("error|FIRST");
    await page.getByRole("checkbox", { name: "Regular expression" }).click();
    await page.getByRole("textbox", { name: "Find in the logs" }).fill("error|first");
    await expect.element(page.getByText("2 of 4 lines of 3 containers")).toBeVisible();
    expect(lines()).toEqual(["first", "third ERROR"]);
    await page.getByRole("combobox", { name: "Pod" }).selectOptions("cart-7d4b9-aaaaa");
    await page.getByRole("combobox", { name: "Container" }).selectOptions("proxy");
    await page.getByRole("textbox", { name: "Find in the logs" }).fill("");
    await expect.element(page.getByText("1 line of 1 container")).toBeVisible();
    expect(router.state.location.search).toEqual({
      tab: "logs",
      pod: "cart-7d4b9-aaaaa",
      container: "proxy",
      regexp: true,
    });
    await expect.element(page.getByText("kubectl logs cart-7d4b9-aaaaa -n shop -c proxy -f")).toBeVisible();
  });

  test("an expression that cannot be used says why, and hides nothing", async () => {
    open("/services/cart@berlin?tab=logs&find=(a&regexp=true", {
      agent,
      ...clusterApi({ pods, deployments: ["cart"], logs }),
    });
    await expect.element(page.getByText("The expression cannot be used: missing closing ): `(a`.")).toBeVisible();
    await expect.element(page.getByText("4 lines of 3 containers")).toBeVisible();
    await expectAccessible();
  });

  test("the containers before the last restart, and those that have none", async () => {
    open("/services/cart@berlin?tab=logs&previous=true", {
      agent,
      ...clusterApi({ pods, deployments: ["cart"], logs }),
    });
    await expect.element(page.getByText("the last words")).toBeVisible();
    await expect.element(page.getByText("2 logs could not be read")).toBeVisible();
    await expect.element(page.getByText("not found", { exact: false })).toBeVisible();
  });

  test("the keyboard chooses a line, which is shown in full", async () => {
    const long = "x".repeat(1024 * 1024);
    const { kube } = clusterApi({
      pods: pods.slice(1),
      deployments: ["cart"],
      logs: { "cart-7d4b9-bbbbb web": `${at(1)} <img src=x onerror=alert(1)>\u202e${long}\n` },
    });
    open("/services/cart@berlin?tab=logs", { agent, kube });
    await expect.element(page.getByRole("row")).toBeVisible();
    (page.getByRole("row").element() as HTMLElement).focus();
    await userEvent.keyboard("{Enter}");
    const chosen = page.getByRole("region", { name: "The chosen line" });
    await expect.element(chosen.getByText("U+202E")).toBeVisible();
    await expect.element(chosen.getByText(/^… and 98\d,\d{3} characters more$/)).toBeInTheDocument();
    expect(document.querySelector("#app img")).toBeNull();
    await expectAccessible();
  });

  test("many lines are a window of rows, at the newest", async () => {
    const many = Array.from({ length: 20_000 }, (_, index) => `2026-11-28T11:17:42.${100_000 + index}Z line ${index}`);
    const { kube } = clusterApi({
      pods: pods.slice(1),
      deployments: ["cart"],
      logs: { "cart-7d4b9-bbbbb web": `${many.join("\n")}\n` },
    });
    open("/services/cart@berlin?tab=logs", { agent, kube });
    await expect.element(page.getByText("line 19999", { exact: true })).toBeVisible();
    expect(page.getByRole("row").elements().length).toBeLessThan(100);
    (page.getByRole("row").last().element() as HTMLElement).focus();
    await userEvent.keyboard("{Home}");
    await expect.element(page.getByText("line 0", { exact: true })).toBeVisible();
    await page.getByRole("button", { name: "To the newest" }).click();
    await expect.element(page.getByText("line 19999", { exact: true })).toBeVisible();
  });

  test("a refusal has the words of the cluster", async () => {
    const words =
      'pods is forbidden: User "leat:user:ada" cannot list resource "pods" in API group "" in namespace "shop"';
    open("/services/cart@berlin?tab=logs", { agent, ...clusterApi({ before: () => failure(403, words) }) });
    await expect.element(page.getByText(words)).toBeVisible();
    await expect.element(page.getByText("leat access berlin")).toBeVisible();
    await expectAccessible();
  });

  test("a cluster that is away leaves no empty tab", async () => {
    open("/services/cart@berlin?tab=logs", { agent, ...clusterApi({ before: offline }) });
    await expect.element(page.getByText("The cluster is not connected")).toBeVisible();
  });

  test("a service without pods says so", async () => {
    open("/services/cart@berlin?tab=logs", { agent: { getInventory: () => ({ objects: [] }) } });
    await expect.element(page.getByText("No pod, so no log")).toBeVisible();
    await expectAccessible();
  });
});
