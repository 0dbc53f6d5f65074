// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { ListGlobalServiceMembersResponseSchema } from "../src/gen/leat/fleet/v1/global_service_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { globalMembers, globalRow, globalRows } from "./global-services.ts";
import { type Answers, makeHub, refusal } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

const globals =
  (rows = globalRows) =>
  (kind: string) =>
    kind === "GlobalService" ? rows() : undefined;

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub({
    objects: globals(),
    globals: { listGlobalServiceMembers: globalMembers },
    ...change,
  });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const heading = (name: string) => page.getByRole("heading", { level: 1, name });
const grid = () => page.getByRole("grid");

describe("global services", () => {
  test("those with clusters that want a person come first", async () => {
    open("/global-services");
    await expect.element(grid().getByText("monitoring", { exact: true })).toBeVisible();
    const names = [...document.querySelectorAll("[role=row] a")].map((link) => link.textContent);
    expect(names).toEqual(["ingress", "logging", "monitoring", "policies", "edge/agent", "new"]);
    const states = ["Held", "Unhealthy in places", "Needs attention", "Unhealthy", "Healthy", "No cluster"];
    const shown = [...document.querySelectorAll("[role=row]")].slice(1).map((row) => row.textContent ?? "");
    for (const [index, state] of states.entries()) expect(shown[index]).toContain(state);
    await expect.element(grid().getByText("997 / 1,000")).toBeVisible();
    await expect.element(page.getByText("leat get globalservices")).toBeVisible();
    await expectAccessible();
  });

  test("a hub without one says what they are for", async () => {
    open("/global-services", { objects: globals(() => []) });
    await expect.element(page.getByText("No global service yet")).toBeVisible();
    await expectAccessible();
  });
});

describe("a global service", () => {
  test("it has what selects clusters, what is held, and each cluster with its reason", async () => {
    const { router } = open("/global-services/ingress");
    await expect.element(heading("ingress")).toBeVisible();
    await expect.element(page.getByText("2 clusters keep the service", { exact: false })).toBeVisible();
    await expect.element(page.getByText("leat prune confirm globalservice/ingress")).toBeVisible();
    await expect.element(page.getByText("self.kubernetes.minor >= 30")).toBeVisible();
    await expect.element(grid().getByText("labels and condition").first()).toBeVisible();
    await expect.element(grid().getByText("a person wrote the service ingress@osaka", { exact: false })).toBeVisible();
    await expectAccessible();
    await page.getByRole("link", { name: "Show them" }).click();
    await expect.poll(() => router.state.location.search).toEqual({ filter: 'label.tier="edge"' });
  });

  test("its clusters come in pages, whose place is in the address", async () => {
    const asked: string[] = [];
    const { router } = open("/global-services/ingress", {
      globals: {
        listGlobalServiceMembers: (request) => {
          asked.push(`${request.page?.size} ${request.page?.token}`);
          return globalMembers(request);
        },
      },
    });
    await page.getByRole("link", { name: "Next page" }).click();
    await expect.poll(() => router.state.location.search).toEqual({ after: "p2" });
    await expect.element(grid().getByText("store-100", { exact: true })).toBeVisible();
    expect(asked).toEqual(["100 ", "100 p2"]);
    await page.getByRole("link", { name: "First page" }).click();
    await expect.poll(() => router.state.location.search).toEqual({});
    await expect.element(grid().getByText("store-4", { exact: true })).toBeVisible();
  });

  test("one that the person sees no cluster of says so", async () => {
    open("/global-services/new", {
      globals: { listGlobalServiceMembers: () => create(ListGlobalServiceMembersResponseSchema) },
    });
    await expect.element(page.getByText("No cluster that you may see")).toBeVisible();
    await expectAccessible();
  });

  test("a refused list of clusters leaves the rest of the page", async () => {
    open("/global-services/ingress", {
      globals: {
        listGlobalServiceMembers: () => {
          throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "ada may not get globalservices");
        },
      },
    });
    await expect.element(page.getByText("ada may not get globalservices")).toBeVisible();
    await expect.element(page.getByText("self.kubernetes.minor >= 30")).toBeVisible();
    await expectAccessible();
  });

  test("a hub that is too old for members of one project names them by the project", async () => {
    const row = globalRow("edge/agent", { clusters: 1, healthy: 1 });
    const { router } = open("/global-services/edge/agent", { objects: globals(() => [row]) });
    await grid()
      .getByRole("row", { name: /store-4/ })
      .click();
    await expect.poll(() => router.state.location.pathname).toBe("/services/edge/agent@store-4");
  });
});
