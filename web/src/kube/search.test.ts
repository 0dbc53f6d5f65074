// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { expression, matcherOf } from "./search.ts";

const texts = ["", "a", "ab", "aaa", "abc", "error: code=500", "2026-11-28T11:17:42Z GET /x", "foo_bar", "a\tb", "[x]"];

test("it finds what the browser's own finds", () => {
  for (const source of [
    "a",
    "^a$",
    "a*b",
    "(ab)+c?",
    "a|b|code",
    "code=\\d{3}",
    "code=5\\d{2,}",
    "x{0,2}y?",
    "[a-c]+$",
    "[^a-z]",
    "[]x]|\\[",
    "\\bfoo\\w+\\b",
    "foo\\b",
    "\\d{4}-(\\d{2}-?){2}T",
    "GET|POST",
    "(?:a|b)*c",
    "a\\tb",
    ".+\\s.+",
    "",
    "(|a)b",
    "o?\\Bo",
    "(a*)*b",
  ]) {
    // A ] that comes first is a member here, as in grep.
    const own = new RegExp(source === "[]x]|\\[" ? "[\\]x]|\\[" : source);
    const found = expression(source);
    for (const text of texts) expect(found(text), `${source} in ${JSON.stringify(text)}`).toBe(own.test(text));
  }
});

test("no expression and no text make it slow", () => {
  const text = "a".repeat(20_000);
  // Each of these takes the browser's own longer than anybody waits.
  for (const source of ["(a+)+$x", "(a|a)*b", "a*a*a*a*a*b", "(a?){50}a{50}b", "(.*)(.*)(.*)x"]) {
    expect(expression(source)(text), source).toBe(false);
  }
});

test("what it does not know is named", () => {
  for (const source of [
    "(",
    ")",
    "[a",
    "*a",
    "a{3,1}",
    "a{999}",
    "(?=a)",
    "(a)\\1",
    "(((a{100}){100}){100})",
    "[z-a]",
  ]) {
    expect(matcherOf(source, true), source).toHaveProperty("objection");
  }
});

test("a filter without capitals matches both cases", () => {
  const matches = (filter: string, text: string, isExpression = false) => {
    const matcher = matcherOf(filter, isExpression);
    return "matches" in matcher && matcher.matches(text);
  };
  expect(matches("error", "An ERROR")).toBe(true);
  expect(matches("ERROR", "an error")).toBe(false);
  expect(matches("err.r$", "An ERROR", true)).toBe(true);
  expect(matches("a.c", "abc")).toBe(false);
});
