// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { type Search, searchExpression, searchText } from "./search.ts";

const found = (search: Search, text: string) => "matches" in search && search.matches(text);

test("an expression is found anywhere in a line", async () => {
  const line = "2026-11-28T11:17:42Z error: code=500";
  for (const source of ["code=5\\d{2}$", "^\\d{4}-(\\d{2}-?){2}T", "warn|error", "\\berror\\b"])
    expect(found(await searchExpression(source), line), source).toBe(true);
  expect(found(await searchExpression("code=4\\d{2}"), line)).toBe(false);
});

test("no expression and no text make it slow", async () => {
  const text = "a".repeat(20_000);
  // Each of these takes the browser's own longer than anybody waits.
  for (const source of ["(a+)+$x", "(a|a)*b", "a*a*a*a*a*b", "(a?){50}a{50}b", "(.*)(.*)(.*)x"])
    expect(found(await searchExpression(source), text), source).toBe(false);
});

test("what it does not know is named", async () => {
  for (const source of ["(", ")", "[a", "*a", "a{3,1}", "(?=a)", "(a)\\1", "(((a{100}){100}){100})", "[z-a]"])
    expect(await searchExpression(source), source).toHaveProperty("objection");
});

test("a filter without capitals matches both cases", async () => {
  expect(found(searchText("error"), "An ERROR")).toBe(true);
  expect(found(searchText("ERROR"), "an error")).toBe(false);
  expect(found(await searchExpression("err.r$"), "An ERROR")).toBe(true);
  expect(found(await searchExpression("ERR.R$"), "an error")).toBe(false);
  expect(found(searchText("a.c"), "abc")).toBe(false);
});
