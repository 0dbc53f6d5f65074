// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Hub } from "./budget.ts";
import { type Built, startBuilt } from "./built.ts";

// The palette of the built UI, whose list is a script of its own. People type faster than it arrives.

let built: Built;
beforeAll(async () => {
  built = await startBuilt();
});
afterAll(() => built?.close());

/** Opens a page whose palette has no list until it arrives. */
async function open() {
  const hub = new Hub();
  hub.total = 3;
  built.answer = hub.answer;
  const page = await built.newPage();
  const { promise: arrival, resolve: arrive } = Promise.withResolvers<void>();
  await page.route("**/assets/finder-*.js", async (route) => {
    await arrival;
    await route.continue();
  });
  await page.goto(`${built.base}/`);
  await page.getByText("Nothing needs attention").waitFor();
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await press("Control+k");
  return {
    page,
    hub,
    arrive,
    press,
    type: (text: string) => page.keyboard.type(text),
    field: page.getByRole("combobox", { name: "Go to" }),
    option: (name: string) => page.getByRole("option", { name: new RegExp(`^${name}`) }),
    chosen: page.getByRole("option", { selected: true }),
    path: () => new URL(page.url()).pathname,
  };
}

/** Holds the hub's answers to the palette. Returns what resolves when it asks, and what lets them through. */
function hold(hub: Hub) {
  const asked = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  built.answer = async (request) => {
    if (request.url.endsWith("/QueryFleet")) {
      asked.resolve();
      await answered.promise;
    }
    return hub.answer(request);
  };
  return { asked: asked.promise, answer: answered.resolve };
}

test("what is typed before the list arrives stays in its field, which the list does not replace", async () => {
  const { page, arrive, press, type, field, option, chosen } = await open();
  await type("lusxx");
  await press("Backspace", "Backspace");
  await type("ters");
  await press("Home");
  await type("c");
  expect(await field.inputValue()).toBe("clusters");
  await page.getByRole("dialog", { name: "Go to" }).getByText("Loading").waitFor();
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  const findings = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: typeof import("axe-core") };
    return (await axe.run(document.body)).violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
  });
  expect(findings).toEqual([]);

  const before = await field.elementHandle();
  expect(await chosen.count()).toBe(0);
  arrive();
  await option("Clusters").waitFor();
  expect(await chosen.textContent()).toBe("Clusters");
  expect(await field.inputValue()).toBe("clusters");
  expect(
    await field.evaluate((now: HTMLInputElement, before) => {
      const isAtCaret = document.activeElement === now && now.selectionStart === 1 && now.selectionEnd === 1;
      return now === before && isAtCaret;
    }, before),
  ).toBe(true);
  await page.close();
});

test("Enter before the list arrives opens what it finds", async () => {
  const { page, arrive, press, type, field, path } = await open();
  await type("clusters");
  await press("Enter");
  expect(await field.isVisible()).toBe(true);
  expect(path()).toBe("/ui/");
  arrive();
  await page.waitForURL("**/ui/clusters");
  await field.waitFor({ state: "detached" });
  await page.close();
});

test("Enter before the list arrives waits for the hub, too", async () => {
  const { page, hub, arrive, press, type, field, path } = await open();
  const { asked, answer } = hold(hub);
  await type("web-0");
  await press("Enter");
  arrive();
  await asked;
  expect(await field.isVisible()).toBe(true);
  expect(path()).toBe("/ui/");
  answer();
  await page.waitForURL("**/ui/services/web-0@berlin");
  await field.waitFor({ state: "detached" });
  await page.close();
});

test("Enter that waits is taken back by the next letter", async () => {
  const { page, arrive, press, type, field, option, path } = await open();
  await type("clusters");
  await press("Enter", "Backspace");
  arrive();
  await option("Clusters").waitFor();
  expect(await field.inputValue()).toBe("cluster");
  expect(path()).toBe("/ui/");
  await press("Enter");
  await page.waitForURL("**/ui/clusters");
  await page.close();
});

test("Escape before the list arrives closes the palette, which opens empty afterwards", async () => {
  const { page, arrive, press, type, field, option, path } = await open();
  await type("clusters");
  await press("Enter", "Escape");
  await field.waitFor({ state: "detached" });
  const loaded = page.waitForResponse("**/assets/finder-*.js");
  arrive();
  await (await loaded).finished();
  await press("Control+k");
  await option("Problems").waitFor();
  expect(await field.inputValue()).toBe("");
  expect(path()).toBe("/ui/");
  await page.close();
});

test.each([
  { keys: ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"], name: "Clusters" },
  { keys: ["ArrowUp"], name: "Sign out" },
])("$keys before the list arrives choose $name", async ({ keys, name }) => {
  const { page, arrive, press, field, option, chosen } = await open();
  await press(...keys);
  arrive();
  await option("Problems").waitFor();
  expect(await chosen.textContent()).toBe(name);
  await expect.poll(() => field.getAttribute("aria-activedescendant")).toBe(await chosen.getAttribute("id"));
  await page.close();
});

test("Enter opens nothing that only an earlier text has found", async () => {
  const { page, hub, arrive, press, type, field, option, path } = await open();
  arrive();
  await type("web");
  await option("web-1@berlin").first().waitFor();
  const { asked, answer } = hold(hub);
  await type("-1");
  await option("web-0@berlin").first().waitFor({ state: "detached" });
  await asked;
  await type("2");
  await press("Enter");
  expect(await field.isVisible()).toBe(true);
  expect(path()).toBe("/ui/");
  // This hub answers every text with its first rows.
  answer();
  await page.waitForURL("**/ui/services/web-0@berlin");
  await page.close();
});
