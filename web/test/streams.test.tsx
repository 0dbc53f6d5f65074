// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import type { FleetQuery } from "../src/gen/leat/fleet/v1/query_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub } from "./hub.ts";
import { render } from "./render.tsx";

// A browser without HTTP/2 has six connections to a host, for all tabs together.

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  render(<App hub={hub} router={makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }))} />);
  return answers;
}

const phase = (name: RegExp) => page.getByRole("group", { name: "Phase" }).getByRole("button", { name });

/** Reports whether a query counts, and shows no rows. */
const isCount = (query: FleetQuery) => query.size === 1;

test("a list is one stream, which counts too", async () => {
  const answers = open("/services");
  await expect.element(phase(/^Failed 100$/)).toBeVisible();
  await expect.poll(() => answers.streams).toBe(1);
  expect(answers.queries.filter(isCount)).toEqual([]);
});

test("a list of one phase is one stream, and counts the others by a call", async () => {
  const answers = open("/services?phase=FAILED");
  await expect.element(phase(/^All 10,000$/)).toBeVisible();
  await expect.element(phase(/^Progressing 1,000$/)).toBeVisible();
  await expect.poll(() => answers.streams).toBe(1);
  expect(answers.queries.filter(isCount).every((query) => query.filter === "")).toBe(true);
});

test("it counts again when the list changes, by one call at a time", async () => {
  const held = Promise.withResolvers<void>();
  const calls = { isHeld: false, running: 0, most: 0 };
  const answers = open("/services?phase=FAILED", {
    before: async (call) => {
      if (call !== "queryFleet" || !calls.isHeld) return;
      calls.running += 1;
      calls.most = Math.max(calls.most, calls.running);
      await held.promise;
      calls.running -= 1;
    },
  });
  await expect.element(phase(/^All 10,000$/)).toBeVisible();
  await expect.poll(() => answers.streams).toBe(1);
  calls.isHeld = true;
  answers.sizes.Service = 20_000;
  answers.changeLists();
  await expect.poll(() => calls.running).toBe(1);
  const counts = answers.queries.filter(isCount).length;
  const lists = answers.queries.length - counts;
  answers.changeLists();
  await expect.poll(() => answers.queries.length).toBe(counts + lists + 1);
  answers.changeLists();
  await expect.poll(() => answers.queries.length).toBe(counts + lists + 2);
  held.resolve();
  await expect.element(phase(/^All 20,000$/)).toBeVisible();
  // The call that was held, and one for all that changed meanwhile.
  await expect.poll(() => answers.queries.filter(isCount).length).toBe(counts + 2);
  expect(calls.most).toBe(1);
});

test("an object with a list is two streams", async () => {
  const answers = open("/clusters/berlin");
  await expect.element(page.getByRole("grid")).toBeVisible();
  await expect.poll(() => answers.streams).toBe(2);
});
