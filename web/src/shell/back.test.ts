// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { placeOf } from "./back.ts";

test.each([
  ["/ui/", "/"],
  ["/ui", "/"],
  ["/ui/services?filter=a%20b", "/services?filter=a%20b"],
  ["/ui/services/shop/web@berlin?tab=revisions", "/services/shop/web@berlin?tab=revisions"],
])("%s is %s", (href, place) => {
  expect(placeOf(href)).toBe(place);
});

test.each([
  "",
  "https://evil.example/ui/",
  "//evil.example/ui/",
  "/\\evil.example/ui/",
  "\\/evil.example",
  "/ui/../clusters/berlin/x",
  "/ui/%2e%2e/clusters/berlin/x",
  "/uix",
  "/clusters/berlin/",
  "/login",
  "/ui//evil.example",
  "/ui/\\evil.example",
  "/ui/\nservices",
  "javascript:alert(1)",
  "/ui/sign-in",
])("%j is refused", (href) => {
  expect(placeOf(href)).toBeUndefined();
});
