// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { afterAll, beforeAll, test } from "vitest";
import { median, milliseconds, pressed, scrolled, unfolded } from "../test/budget.ts";
import { type Built, startBuilt } from "../test/built.ts";

// The acts of test/budget.test.ts in the built UI, in time of the main thread's processor. Figures are in bench/RESULTS.md.

let built: Built;
beforeAll(async () => {
  built = await startBuilt();
});
afterAll(() => built?.close());

const report = (what: string, costs: number[], goal?: number) =>
  process.stdout.write(
    `${what}: median ${median(costs).toFixed(1)} ms, at most ${Math.max(...costs).toFixed(1)} ${goal ? `(goal ${goal})` : ""}\n`,
  );

test.each([2000, 200_000])("a list of %i rows", async (rows) => {
  report(`a frame of ${rows} rows that scroll`, (await scrolled(built, rows, milliseconds)).costs, 8);
  report(`a key in ${rows} rows`, (await pressed(built, rows, milliseconds)).costs, 100);
});

test.each([1000, 10_000])("a tree of %i pods", async (pods) => {
  const { read, outline, graph } = await unfolded(built, pods, milliseconds);
  report(`a tree of ${pods} pods, read`, [read]);
  report(`a tree of ${pods} pods, unfolded`, outline, 200);
  report(`a tree of ${pods} pods, drawn as a graph`, graph, 500);
});
