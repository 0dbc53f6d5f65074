// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import { draw } from "../src/pages/clusters/map/draw.ts";
import { groupsOf, layoutOf } from "../src/pages/clusters/map/layout.ts";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const map = () => page.getByRole("region", { name: "Map of the clusters" });

test("the map is in the address, read in windows, and grouped by a label that the person chooses", async () => {
  const { router, answers } = open("/clusters", { sizes: { Cluster: 1200 } });
  await page.getByRole("link", { name: "Map", exact: true }).click();
  await expect.poll(() => router.state.location.search).toEqual({ view: "map" });
  await expect.element(map()).toBeVisible();
  const windows = answers.queries.filter(({ size }) => size === 500).map(({ offset }) => offset);
  expect(windows).toEqual([0, 500, 1000]);
  expect(Math.max(...answers.queries.map(({ size }) => size))).toBe(500);
  await map().getByRole("combobox", { name: "Group by" }).selectOptions("region");
  await expect.poll(() => router.state.location.search).toEqual({ view: "map", by: "region" });
  await expect.element(map().getByRole("heading", { name: "eu 600" })).toBeVisible();
  await expectAccessible();
  // What the filter selects is what the map and the list have, and the view stays.
  await page.getByRole("button", { name: /^Healthy/ }).click();
  await expect.poll(() => router.state.location.search).toEqual({ view: "map", by: "region", phase: "HEALTHY" });
});

test("keys move from cell to cell, each is said, and Enter opens it", async () => {
  const { router } = open("/clusters?view=map&by=region");
  const first = map().getByRole("button", { name: "berlin, Connected, eu" });
  await expect.element(first).toBeInTheDocument();
  (first.element() as HTMLElement).focus();
  await expect.element(first).toHaveAccessibleDescription("Arrow keys move to another cluster, and Enter opens it.");
  await userEvent.keyboard("{ArrowRight}");
  await expect.element(map().getByRole("status")).toHaveTextContent("lisbon, Connected, eu");
  await userEvent.keyboard("{End}");
  await expect.element(map().getByRole("status")).toHaveTextContent("edge/store-999, Connected, us");
  await userEvent.keyboard("{Home}{ArrowRight}{Enter}");
  await expect.poll(() => router.state.location.pathname).toBe("/clusters/lisbon");
});

test("the pointer finds the cell below it, names it, and opens it", async () => {
  const { router } = open("/clusters?view=map");
  await expect.element(map()).toBeVisible();
  const canvas = document.querySelector("canvas") as HTMLCanvasElement;
  await userEvent.hover(canvas, { position: { x: 20, y: 5 } });
  await expect.element(map().getByText("boston, Disconnected").first()).toBeInTheDocument();
  await userEvent.click(canvas, { position: { x: 20, y: 5 } });
  await expect.poll(() => router.state.location.pathname).toBe("/clusters/boston");
});

test("more clusters than cells are said", async () => {
  const { answers } = open("/clusters?view=map", { sizes: { Cluster: 12_000 } });
  await expect.element(page.getByText("The first 10,000 of 12,000 by name are shown.", { exact: false })).toBeVisible();
  expect(answers.queries.filter(({ size }) => size === 500)).toHaveLength(20);
});

test("what the hub can no longer confirm is said as old", async () => {
  open("/clusters?view=map", {
    before: (call) => {
      if (call === "watchQuery") throw new ConnectError("", Code.Unavailable);
    },
  });
  await expect.element(map().getByRole("button", { name: "berlin, Was connected" })).toBeInTheDocument();
  await expectAccessible();
});

test("ten thousand cells are a fill and a stroke for each phase, grey if they are old", () => {
  const phases = ["CONNECTED", "DISCONNECTED", "NOT_JOINED", "NEW"];
  const cells = Array.from({ length: 10_000 }, (_, index) => ({
    ref: `c-${index}`,
    phase: phases[index % 4] as string,
    group: "",
  }));
  const layout = layoutOf(groupsOf(cells, "others"), 1000);
  const calls: string[] = [];
  const context = {
    fillStyle: "",
    strokeStyle: "",
    lineWidth: 0,
    fill() {
      calls.push(`fill ${this.fillStyle}`);
    },
    stroke() {
      calls.push(`stroke ${this.strokeStyle}`);
    },
  };
  const inks = { ok: "green", bad: "red", idle: "grey", paper: "white" };
  draw(context as unknown as CanvasRenderingContext2D, layout, inks, false);
  expect(calls).toEqual([
    "fill green",
    "stroke green",
    "fill red",
    "stroke white",
    "fill grey",
    "stroke grey",
    "fill grey",
    "stroke grey",
  ]);
  calls.length = 0;
  draw(context as unknown as CanvasRenderingContext2D, layout, inks, true);
  expect(new Set(calls)).toEqual(new Set(["fill grey", "stroke grey", "stroke white"]));
});
