// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { type Line, mostBytes, readLines } from "./lines.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

async function read(chunks: Uint8Array[], most?: number): Promise<Line[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const all: Line[] = [];
  for await (const lines of readLines(body, 1e8, most)) all.push(...lines);
  return all;
}

test("lines are the same, wherever the chunks end", async () => {
  const whole = bytes("eins\r\nzwei ü 💧\n\nlast");
  const want = ["eins", "zwei ü 💧", "", "last"].map((text) => ({ text, cut: 0 }));
  for (let at = 0; at <= whole.length; at++) {
    expect(await read([whole.slice(0, at), whole.slice(at)])).toEqual(want);
  }
});

test("a line of a megabyte is cut, and says by how much", async () => {
  const long = "x".repeat(1024 * 1024);
  const [first, second] = await read([bytes(`${long}\nnext\n`)]);
  expect(first?.text).toHaveLength(mostBytes);
  expect(first?.cut).toBe(1024 * 1024 - mostBytes);
  expect(second).toEqual({ text: "next", cut: 0 });
});

test("a line that never ends holds no more than a line may", async () => {
  const [only, ...rest] = await read(
    Array.from({ length: 100 }, () => bytes("0123456789")),
    64,
  );
  expect(only?.text).toHaveLength(64);
  expect(only?.cut).toBe(1000 - 64);
  expect(rest).toEqual([]);
});

test("an answer that never ends is cut off, and its sender told so", async () => {
  let isCancelled = false;
  for (const chunk of [
    bytes("0123456789\n"),
    bytes("x".repeat(100)),
    bytes("x".repeat(1e6)),
    bytes("\n".repeat(1e6)),
  ]) {
    isCancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(chunk),
      cancel: () => {
        isCancelled = true;
      },
    });
    let count = 0;
    let size = 0;
    for await (const lines of readLines(endless, 10_000)) {
      count += lines.length;
      for (const { text } of lines) size += text.length;
    }
    expect(size).toBeLessThanOrEqual(10_000);
    expect(count).toBeLessThanOrEqual(10_000 / 64 + 1);
    expect(isCancelled).toBe(true);
  }
});

test("bytes that are no text do no harm", async () => {
  const [line] = await read([new Uint8Array([0xff, 0xfe, 0x61, 10])]);
  expect(line?.text).toBe("\ufffd\ufffda");
});
