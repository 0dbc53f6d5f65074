// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { shellQuote, shortCommit, splitService } from "./refs.ts";

test.each([
  ["web@berlin", "web", "berlin"],
  ["shop/web@prod/berlin", "shop/web", "prod/berlin"],
  ["web", "web", ""],
])("%s is %s in %s", (ref, name, cluster) => {
  expect(splitService(ref)).toEqual({ name, cluster });
});

test.each([
  ["phase=FAILED", "phase=FAILED"],
  ["a b", "'a b'"],
  ["it's", `'it'\\''s'`],
  ["$(reboot)", "'$(reboot)'"],
  ["web*", "'web*'"],
  ["", "''"],
])("%s is %s in a shell", (text, quoted) => {
  expect(shellQuote(text)).toBe(quoted);
});

test("a commit is eight digits, and a digest is without its algorithm", () => {
  expect(shortCommit("4f2c1e0a9b8c7d6e5f40")).toBe("4f2c1e0a");
  expect(shortCommit("sha256:0123456789abcdef")).toBe("01234567");
});
