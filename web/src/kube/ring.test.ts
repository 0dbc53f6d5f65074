// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { Ring } from "./ring.ts";

const entry = (at: number, source = 0, text = `line ${at}`) => ({ at, source, text, cut: 0 });

test("lines of several containers are in the order of their times", () => {
  const ring = new Ring();
  ring.add([entry(1), entry(3), entry(5)]);
  ring.add([entry(4, 1), entry(2, 1), entry(5, 1), entry(9, 1)]);
  expect(ring.entries.map(({ at, source }) => `${at}/${source}`)).toEqual([
    "1/0",
    "2/1",
    "3/0",
    "4/1",
    "5/0",
    "5/1",
    "9/1",
  ]);
});

test("a million lines keep the newest, and say how many are gone", () => {
  const ring = new Ring(10_000);
  for (let at = 0; at < 1_000_000; at += 500) {
    ring.add(Array.from({ length: 500 }, (_, index) => entry(at + index)));
    expect(ring.entries.length).toBeLessThanOrEqual(11_000);
  }
  expect(ring.entries.at(-1)?.at).toBe(999_999);
  expect(ring.dropped + ring.entries.length).toBe(1_000_000);
  expect(ring.entries[0]?.at).toBe(ring.dropped);
});

test("long lines count by their length", () => {
  const ring = new Ring(10_000, 1_000_000);
  for (let at = 0; at < 100; at++) ring.add([entry(at, 0, "x".repeat(65_536))]);
  expect(ring.entries.length).toBeLessThanOrEqual(17);
  expect(ring.dropped + ring.entries.length).toBe(100);
});
