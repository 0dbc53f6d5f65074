// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { Health, ServicePhase } from "../src/gen/leat/type/v1/state_pb";
import { clusterApi, event, failure } from "./cluster.ts";
import { refusal } from "./hub.ts";
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
  async *watchEvents() {
    yield {
      time: timestampFromMs(Date.now()),
      service: "cart",
      phase: ServicePhase.SYNCING,
      message: "applying 12 objects of commit 4f2c1e0a",
    };
    await new Promise(() => {});
  },
};
const events = [
  event("cart-7d4b9-bbbbb", "BackOff", "Back-off restarting failed container"),
  event("cart-7d4b9-aaaaa", "Scheduled", "Successfully assigned", {
    type: "Normal",
    count: null,
    lastTimestamp: null,
    eventTime: "2026-11-28T11:17:42.192997Z",
  }),
  event("cartoon-1", "BackOff", "of another service"),
];

describe("a service's events", () => {
  test("what the cluster noted, and what the agent does, are one list", async () => {
    open("/services/cart@berlin?tab=events", { agent, ...clusterApi({ events }) });
    await expect.element(page.getByText("Back-off restarting failed container")).toBeVisible();
    await expect.element(page.getByText("applying 12 objects of commit 4f2c1e0a")).toBeVisible();
    expect(page.getByText("of another service").elements()).toHaveLength(0);
    const rows = page.getByRole("grid").getByRole("row").elements();
    expect(rows).toHaveLength(4);
    expect(rows[1]?.textContent).toContain("Syncing");
    await expectAccessible();
  });

  test("warnings alone, by the address", async () => {
    const { router } = open("/services/cart@berlin?tab=events", { agent, ...clusterApi({ events }) });
    await expect.element(page.getByText("Successfully assigned")).toBeVisible();
    await page.getByRole("checkbox", { name: "Warnings only" }).click();
    await expect.element(page.getByText("Successfully assigned")).not.toBeInTheDocument();
    await expect.element(page.getByText("Back-off restarting failed container")).toBeVisible();
    expect(router.state.location.search).toEqual({ tab: "events", warnings: true });
  });

  test("who may not see one of the two still sees the other", async () => {
    const words = 'events is forbidden: User "leat:user:ada" cannot list resource "events"';
    open("/services/cart@berlin?tab=events", { agent, ...clusterApi({ before: () => failure(403, words) }) });
    await expect.element(page.getByText("applying 12 objects of commit 4f2c1e0a")).toBeVisible();
    await expect.element(page.getByText(words)).toBeVisible();
    await expectAccessible();
  });

  test("who may see neither is told why", async () => {
    const denied = () => {
      throw refusal(Code.PermissionDenied, "ACCESS_DENIED", 'you lack the permission "watch services/events"');
    };
    open("/services/cart@berlin?tab=events", { agent: { getInventory: denied, watchEvents: denied } });
    await expect.element(page.getByText("Your bindings do not allow this")).toBeVisible();
    await expect.element(page.getByText("leat access berlin")).toBeVisible();
    await expectAccessible();
  });

  test("a quiet cluster says where the past is", async () => {
    const quiet = { ...agent, watchEvents: async function* () {} };
    open("/services/cart@berlin?tab=events", { agent: quiet, ...clusterApi() });
    await expect.element(page.getByText("No event", { exact: true })).toBeVisible();
    await expectAccessible();
  });
});
