// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { piecesOf, plainOf } from "./ansi.ts";

test("colours and weight are kept", () => {
  expect(piecesOf("\u001b[31mERROR\u001b[0m it \u001b[1;92mbroke\u001b[m")).toEqual([
    { text: "ERROR", ink: "red" },
    { text: " it " },
    { text: "broke", ink: "green", isStrong: true },
  ]);
  expect(piecesOf("\u001b[38;5;1ma\u001b[38;2;1;2;3mb\u001b[48;5;9mc")).toEqual([
    { text: "a", ink: "red" },
    { text: "b" },
    { text: "c" },
  ]);
});

test("every other command to a terminal is left out", () => {
  const line =
    "a\u001b[2J\u001b[10;10Hb\u001b]0;title\u0007c\u001b]8;;javascript:alert(1)\u001b\\link\u001b]8;;\u001b\\";
  expect(
    piecesOf(line)
      .map((piece) => piece.text)
      .join(""),
  ).toBe("abclink");
  expect(plainOf(line)).toBe("abclink");
});

test("what nobody sees is shown by its number", () => {
  expect(piecesOf("a\u202eb\u200bc\u0000\ufeff\u{e0041}")).toEqual([
    { text: "a" },
    { text: "U+202E", isMark: true },
    { text: "b" },
    { text: "U+200B", isMark: true },
    { text: "c" },
    { text: "U+0000", isMark: true },
    { text: "U+FEFF", isMark: true },
    { text: "U+E0041", isMark: true },
  ]);
  expect(piecesOf("tab\there")).toEqual([{ text: "tab\there" }]);
});

test("a line of commands alone has an end", () => {
  const pieces = piecesOf("\u202ex".repeat(30_000));
  expect(pieces.length).toBeLessThan(500);
  expect(pieces.at(-1)?.text).not.toContain("\u202e");
});
