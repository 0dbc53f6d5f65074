// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { type Cell, cellAt, groupsOf, headingHeight, layoutOf, moved, placeOf } from "./layout.ts";

const cells = (count: number, group: (index: number) => string = (index) => (index % 3 === 0 ? "eu" : "us")): Cell[] =>
  Array.from({ length: count }, (_, index) => ({ ref: `c-${index}`, phase: "CONNECTED", group: group(index) }));

test("the largest group comes first, and too many groups become one", () => {
  expect(groupsOf(cells(9), "others").map(({ title, cells }) => [title, cells.length])).toEqual([
    ["us", 6],
    ["eu", 3],
  ]);
  const many = groupsOf(
    cells(500, (index) => `host-${index}`),
    "others",
  );
  expect(many).toHaveLength(60);
  expect(many.at(-1)?.title).toBe("others");
  expect(many.reduce((sum, group) => sum + group.cells.length, 0)).toBe(500);
});

test("one group has no heading, and fills the width", () => {
  const layout = layoutOf(
    groupsOf(
      cells(10_000, () => ""),
      "others",
    ),
    1000,
  );
  expect(layout.headings).toEqual([]);
  expect(layout.lines).toHaveLength(Math.ceil(10_000 / Math.floor(1000 / layout.pitch)));
  expect(layout.height).toBe(layout.lines.length * layout.pitch);
});

test("the place of each cell is the one where the pointer finds it", () => {
  const layout = layoutOf(groupsOf(cells(1000), "others"), 333);
  for (let index = 0; index < 1000; index += 1) {
    const { x, y } = placeOf(layout, index);
    expect(cellAt(layout, x + 1, y + 1)).toBe(index);
  }
  expect(cellAt(layout, 5, headingHeight - 1)).toBeUndefined();
  expect(cellAt(layout, -1, headingHeight + 1)).toBeUndefined();
  expect(cellAt(layout, 332, headingHeight + 1)).toBeUndefined();
});

test("keys move by cells, lines and pages, across groups, and stop at the ends", () => {
  // Two groups of 24 px cells, four in a line: us has 6, eu has 3.
  const layout = layoutOf(groupsOf(cells(9), "others"), 100);
  const from = (index: number, ...keys: string[]) =>
    keys.reduce((at, key) => moved(layout, at, key) ?? Number.NaN, index);
  expect(from(0, "ArrowLeft")).toBe(0);
  expect(from(0, "ArrowRight", "ArrowRight")).toBe(2);
  expect(from(3, "ArrowDown")).toBe(5); // the second line of us has two cells
  expect(from(4, "ArrowDown")).toBe(6); // the first of eu
  expect(from(8, "ArrowDown")).toBe(8);
  expect(from(8, "ArrowUp", "ArrowUp")).toBe(1);
  expect(from(4, "End")).toBe(8);
  expect(from(4, "Home")).toBe(0);
  expect(from(8, "PageUp")).toBe(2);
  expect(moved(layout, 0, "a")).toBeUndefined();
});
