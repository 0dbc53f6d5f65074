// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { bounds, CastReader, countUntil, findIn, playTimes } from "./cast.ts";

const header = '{"version":2,"width":100,"height":30}';

/** Reads a file in pieces of so many bytes. */
function reading(file: string, step = 7) {
  const reader = new CastReader();
  const bytes = new TextEncoder().encode(file);
  for (let at = 0; at < bytes.length; at += step) reader.read(bytes.subarray(at, at + step));
  reader.end();
  return reader;
}

describe("a recording", () => {
  test("is read in pieces that cut characters", () => {
    const reader = reading(
      `${header}\n[0.5,"o","é\u{1f980}"]\n[1,"i","secret"]\n[2,"r","120x40"]\n\n[3,"o","end"]\n`,
      1,
    );
    expect(reader.fault).toBeUndefined();
    expect(reader.size).toEqual({ columns: 100, rows: 30 });
    expect(reader.events).toEqual([
      { at: 0.5, output: "é\u{1f980}" },
      { at: 2, output: "", size: { columns: 120, rows: 40 } },
      { at: 3, output: "end" },
    ]);
    expect(reader.length).toBe(3);
  });

  test.each([
    ["nothing", "", { is: "foreign" }, 0],
    ["another version", '{"version":3}\n', { is: "foreign" }, 0],
    ["another file", "<html>\n<script>", { is: "foreign" }, 0],
    ["null", "null\n", { is: "foreign" }, 0],
    ["a torn line", `${header}\n[1,"o","a"]\n[2,"o","b`, { is: "torn" }, 1],
    ["a line that is no event", `${header}\n[1,"o","a"]\n{"x":1}\n[2,"o","b"]\n`, { is: "damaged", line: 3 }, 1],
    ["a time that is a text", `${header}\n["1","o","a"]\n`, { is: "damaged", line: 2 }, 0],
    ["data that is no text", `${header}\n[1,"o",{"toString":1}]\n`, { is: "damaged", line: 2 }, 0],
    ["one endless line", `${header}\n${"x".repeat(bounds.line + 100)}`, { is: "damaged", line: 2 }, 0],
  ])("that is hostile or broken is played as far as it is right: %s", (_, file, fault, events) => {
    const reader = reading(file, 64 * 1024);
    expect(reader.fault).toEqual(fault);
    expect(reader.events.length).toBe(events);
  });

  test("has sizes and times that a page can show", () => {
    const events = `[5,"o","a"]\n[1,"o","b"]\n[1e300,"o","c"]\n[-4,"r","9999x1"]\n[1,"r","0x0"]\n[1,"r","x"]\n`;
    const reader = reading(`{"version":2,"width":1e9,"height":-1}\n${events}`);
    expect(reader.size).toEqual({ columns: 80, rows: 24 });
    expect(reader.events.map(({ at }) => at)).toEqual([5, 5, bounds.length, bounds.length]);
    expect(reader.events.at(-1)?.size).toEqual({ columns: bounds.columns, rows: 1 });
  });

  test("is held up to a bound, and what is longer says so", () => {
    const line = `[1,"o","${"y".repeat(1024 * 1024)}"]\n`;
    const reader = new CastReader();
    const bytes = new TextEncoder().encode(line);
    reader.read(new TextEncoder().encode(`${header}\n`));
    for (let read = 0; read < 200 && !reader.isOver; read++) reader.read(bytes);
    expect(reader.fault).toEqual({ is: "long" });
    expect(reader.events.length).toBe(bounds.output / (1024 * 1024));
  });
});

test("long pauses are skipped", () => {
  const events = [0.5, 100, 100.2].map((at) => ({ at, output: "" }));
  expect([...playTimes(events, false)]).toEqual([0.5, 100, 100.2]);
  expect([...playTimes(events, true)].map((at) => Math.round(at * 10) / 10)).toEqual([0.5, 1.5, 1.7]);
  expect(countUntil(playTimes(events, false), 100)).toBe(2);
  expect(countUntil(playTimes(events, false), 0)).toBe(0);
});

test("a text is found as a person read it, across pieces and colours", () => {
  const events = ["$ ls\r\n", "a \u001b[31mER", "ROR\u001b[0m here\r\n", "error again"].map((output, at) => ({
    at,
    output,
  }));
  expect(findIn(events, "error")).toEqual([
    { event: 1, before: "a ", found: "ERROR", after: " here" },
    { event: 3, before: "", found: "error", after: " again" },
  ]);
  expect(findIn(events, "")).toEqual([]);
});
