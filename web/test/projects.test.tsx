// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { governRows, projectRow } from "./govern-objects.ts";
import { type Answers, makeHub } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub({ objects: governRows, ...change });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const grid = () => page.getByRole("grid");

describe("projects", () => {
  test("those whose quotas are used up come first", async () => {
    const { router } = open("/projects");
    await expect.element(grid().getByText("Full", { exact: true })).toBeVisible();
    const names = [...document.querySelectorAll("[role=row] a[href*=projects]")].map((link) => link.textContent);
    expect(names).toEqual(["shop", "edge", "default"]);
    await expect.element(grid().getByText("5 %")).toBeVisible();
    await expect.element(grid().getByText("No quota")).toBeVisible();
    await expectAccessible();
    await grid().getByText("edge", { exact: true }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/projects/edge");
  });

  test("a list that others change is asked for again", async () => {
    let services = 1;
    const wakes: (() => void)[] = [];
    const sleep = (ms: number, signal: AbortSignal) =>
      new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve());
        if (ms === 15_000) wakes.push(resolve);
      });
    const { hub } = makeHub();
    open("/projects", {
      objects: () => [projectRow("default", { services })],
      around: { surroundings: { ...hub.surroundings, sleep } },
    });
    await expect.element(grid().getByText("default")).toBeVisible();
    services = 4321;
    await expect.poll(() => wakes.length).toBe(1);
    wakes[0]?.();
    await expect.element(grid().getByText("4,321")).toBeVisible();
  });
});

describe("a project", () => {
  test("it has what is used of its quotas, its limits and its shares", async () => {
    open("/projects/shop");
    const main = page.getByRole("main");
    await expect.element(main.getByText("It has used up its quota of repositories (20 of 20)")).toBeVisible();
    await expect.element(main.getByRole("link", { name: "121 of 200" })).toBeVisible();
    await expect.element(main.getByText("40 MB of 105 MB")).toBeVisible();
    await expect.element(main.getByText("at most 10.5 MB")).toBeVisible();
    await expect.element(main.getByText("https://git.example.com/shop/**")).toBeVisible();
    // An empty list allows nothing, and one that is left out anything.
    await expect.element(main.getByText("nothing", { exact: true }).first()).toBeVisible();
    await expect.element(main.getByText("anything", { exact: true }).first()).toBeVisible();
    await expect.element(main.getByText("with stage=prod, region notin (us)")).toBeVisible();
    await expect.element(main.getByRole("link", { name: "platform/defaults" })).toBeVisible();
    expect(main.getByRole("link", { name: "database", exact: true }).element().getAttribute("href")).toBe(
      "/ui/configuration/sets/shop/database",
    );
    await expectAccessible();
  });

  test("one without limits says so", async () => {
    open("/projects/default");
    await expect.element(page.getByText("Other projects may use nothing of it.")).toBeVisible();
    await expect.element(page.getByText("No quota")).toBeVisible();
    await expectAccessible();
  });

  test("one that is not there has the hub's words", async () => {
    open("/projects/gone");
    await expect.element(page.getByText("leat get projects", { exact: true })).toBeVisible();
    await expectAccessible();
  });
});
