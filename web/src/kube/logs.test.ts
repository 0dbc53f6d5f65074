// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { advance, stamped } from "./logs.ts";

const lines = (...all: string[]) => all.map((text) => ({ text, cut: 0 }));

test("a line's time is read to the microsecond", () => {
  expect(stamped("2026-11-28T11:17:42.25Z hello")).toEqual({
    stamp: "2026-11-28T11:17:42.25Z",
    at: Date.UTC(2026, 10, 28, 11, 17, 42) + 250,
    text: "hello",
  });
  expect(stamped("2026-11-28T13:17:42+02:00 ").at).toBe(Date.UTC(2026, 10, 28, 11, 17, 42));
  expect(stamped("not a time").at).toBe(0);
  expect(stamped("2026-99-99T99:99:99Z x").text).toBe("2026-99-99T99:99:99Z x");
});

test("what an answer repeats is shown once", () => {
  const cursor = { stamp: "", at: 0, count: 0 };
  const one = "2026-11-28T11:17:42.1Z one";
  const two = "2026-11-28T11:17:42.2Z two";
  const same = "2026-11-28T11:17:42.2Z same time";
  const text = (entries: { text: string }[]) => entries.map((entry) => entry.text);
  expect(text(advance(cursor, 0, lines(one, two)))).toEqual(["one", "two"]);
  expect(text(advance(cursor, 0, lines(one, two)))).toEqual([]);
  expect(text(advance(cursor, 0, lines(one, two, same, "2026-11-28T11:17:43Z three")))).toEqual(["same time", "three"]);
  expect(text(advance(cursor, 0, lines("2026-11-28T11:17:43Z three", "2026-11-28T11:17:43.5Z four")))).toEqual([
    "four",
  ]);
});
