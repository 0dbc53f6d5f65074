// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Page } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isSiege } from "../build/siege.js";
import { calls, Hub, median, open, pressed, scrolled, unfolded } from "./budget.ts";
import { type Built, startBuilt } from "./built.ts";

// What the built UI costs the machine of a person, and the hub, in what no machine changes: calls, elements and bytes.
// The bars leave room. What a test finds is work that grows with the fleet. Times are in bench/RESULTS.md.

/** A test that takes most of a minute, of `make siege`. */
const siege = test.runIf(isSiege);

const large = 200_000;
const small = 2000;

/** Only a hang reaches this. */
const polling = { timeout: 60_000 };

let built: Built;
beforeAll(async () => {
  built = await startBuilt();
});
afterAll(() => built?.close());

/**
 * Changes rows of the page, and waits until it shows the last change. A stream that ends and one that has not begun yet
 * take no change, so each stream that begins meanwhile has some of its own.
 */
async function changed(page: Page, hub: Hub, changes: number) {
  const last = hub.changes;
  let opened = -1;
  await expect
    .poll(async () => {
      if (hub.streams.size > 0 && opened !== hub.opened) {
        opened = hub.opened;
        hub.push(changes);
      }
      const shown = await page.locator('[data-index="0"]').textContent();
      return Number(/([\d,]+) \/ 12/.exec(shown ?? "")?.[1]?.replaceAll(",", ""));
    }, polling)
    .toBeGreaterThan(last);
}

const report = (text: string) => process.stdout.write(`${text}\n`);
const shown = (costs: number[]) =>
  `${median(costs).toFixed(0)} calls, ${Math.min(...costs).toFixed(0)} to ${Math.max(...costs).toFixed(0)}`;

test("a frame costs no more in a list of 200,000 rows than in one of 2,000", async () => {
  const few = await scrolled(built, small, calls);
  const many = await scrolled(built, large, calls);
  report(`a frame of ${small} rows: ${shown(few.costs)}; of ${large}: ${shown(many.costs)}`);
  report(`elements: ${Math.min(...many.elements)} to ${Math.max(...many.elements)}`);
  expect(median(many.costs)).toBeLessThan(1.5 * median(few.costs));
  expect(median(many.costs)).toBeLessThan(50_000);
  for (const { elements, changes } of [few, many]) {
    expect(Math.max(...elements)).toBeLessThan((few.elements[0] as number) * 1.2);
    expect(changes).toBeGreaterThan(200);
  }
});

test("a key costs no more in a list of 200,000 rows than in one of 2,000", async () => {
  const few = await pressed(built, small, calls);
  const many = await pressed(built, large, calls);
  report(`a key in ${small} rows: ${shown(few.costs)}; in ${large}: ${shown(many.costs)}`);
  expect(median(many.costs)).toBeLessThan(1.5 * median(few.costs));
  expect(median(many.costs)).toBeLessThan(80_000);
  expect(Math.min(few.changes, many.changes)).toBeGreaterThan(100);
});

siege("a tree of ten times the pods costs less than ten times the calls, and no more elements", async () => {
  const few = await unfolded(built, 1000, calls);
  const many = await unfolded(built, 10_000, calls);
  for (const [pods, { outline, graph }] of [
    [1000, few],
    [10_000, many],
  ] as const)
    report(`a tree of ${pods} pods: outline ${shown(outline)}; graph ${shown(graph)}`);
  // What the page does besides, such as to read the tree again, only adds to an act.
  expect(Math.min(...many.outline)).toBeLessThan(3 * Math.min(...few.outline));
  expect(Math.min(...many.graph)).toBeLessThan(5 * Math.min(...few.graph));
  expect(Math.min(...many.outline)).toBeLessThan(250_000);
  expect(Math.min(...many.graph)).toBeLessThan(500_000);
  expect(Math.max(...many.elements)).toBeLessThan(Math.max(...few.elements) * 1.2);
});

siege("the heap returns after 10,000 changes and 50 navigations", async () => {
  const { page, hub, devtools } = await open(built, "/services", "web-0", large);
  const used = async () => {
    await devtools.send("HeapProfiler.collectGarbage");
    return (await devtools.send("Runtime.getHeapUsage")).usedSize / 1e6;
  };
  const visit = async () => {
    await page.getByRole("link", { name: "Problems" }).first().click();
    await page.getByText("Nothing needs attention").waitFor();
    await page.getByRole("link", { name: "Services", exact: true }).first().click();
    await page.getByText("web-0").first().waitFor();
    for (let left = 4; left > 0; left--) {
      await changed(page, hub, 50);
    }
  };
  for (let warm = 0; warm < 10; warm++) await visit();
  hub.changes = 0;
  const samples = [await used()];
  for (let fifth = 0; fifth < 5; fifth++) {
    for (let count = 0; count < 10; count++) await visit();
    samples.push(await used());
  }
  report(`heap: ${samples.map((sample) => sample.toFixed(2)).join(", ")} MB; ${hub.changes} changes`);
  expect(hub.changes).toBeGreaterThanOrEqual(10_000);
  // What grew by a kilobyte with each change would be 10 MB by now.
  expect((samples.at(-1) as number) - (samples[0] as number)).toBeLessThan(3);
  expect(Math.max(...samples)).toBeLessThan(120);
  await page.close();
});

test("a quiet page costs at most 1 kB a second, and a hidden one holds no stream", async () => {
  const hub = new Hub();
  hub.total = large;
  built.answer = hub.answer;
  const page = await built.newPage();
  await page.clock.install();
  await page.goto(`${built.base}/services`);
  await page.getByText("web-0").first().waitFor();
  await expect.poll(() => hub.streams.size, polling).toBeGreaterThan(0);

  // Ten minutes of the page's time. In place of heartbeats there are changes, which are larger and can be waited for.
  built.bytes = 0;
  const minutes = 10;
  for (let beat = 1; beat <= minutes * 3; beat++) {
    hub.ahead += 20_000;
    await page.clock.runFor(20_000);
    await changed(page, hub, 1);
  }
  const quiet = built.bytes / (minutes * 60);
  report(`quiet: ${quiet.toFixed(0)} B/s of a visible page, ${hub.streams.size} streams`);
  expect(quiet).toBeLessThanOrEqual(1000);
  expect(hub.streams.size).toBeLessThanOrEqual(2);

  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { configurable: true, value: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.clock.runFor(31_000);
  await expect.poll(() => hub.streams.size, polling).toBe(0);
  built.bytes = 0;
  for (let minute = 0; minute < minutes; minute++) {
    hub.ahead += 60_000;
    await page.clock.runFor(60_000);
  }
  report(`quiet: ${(built.bytes / (minutes * 60)).toFixed(1)} B/s of a hidden page`);
  expect(hub.streams.size).toBe(0);
  // The access token alone is renewed.
  expect(built.bytes / (minutes * 60)).toBeLessThanOrEqual(20);
  await page.close();
});
