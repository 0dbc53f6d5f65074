// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { refIn, repositoryAt, shellQuote, shortCommit, splitCommit, splitService, versionAt } from "./refs.ts";

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

test.each([
  ["default", "web@berlin", "web@berlin"],
  ["shop", "web@berlin", "shop/web@berlin"],
  ["shop", "web@edge/berlin", "shop/web@edge/berlin"],
  ["shop", "default/web@berlin", "web@berlin"],
  ["shop", "edge/kiosk", "edge/kiosk"],
])("in %s, %s is %s", (project, name, ref) => {
  expect(refIn(project, name)).toBe(ref);
});

test("a commit is eight digits, and a digest is without its algorithm", () => {
  expect(shortCommit("4f2c1e0a9b8c7d6e5f40")).toBe("4f2c1e0a");
  expect(shortCommit("sha256:0123456789abcdef")).toBe("01234567");
});

test("a commit's address has its repository", () => {
  expect(splitCommit("shop/web@4f2c1e0a")).toEqual({ repository: "shop/web", commit: "4f2c1e0a" });
  expect(splitCommit("charts@sha256:0123")).toEqual({ repository: "charts", commit: "sha256:0123" });
});

test.each([
  ["one source", ["web"], ["4f2c"], [], "web", undefined],
  ["a chart and its values", ["charts", "web"], ["sha256:01", "4f2c"], ["1.2.0"], "charts", undefined],
  ["two charts", ["charts", "more"], ["sha256:01", "sha256:02"], ["1.2.0", "2.0.0"], "charts", "1.2.0"],
  ["a source that was never resolved", ["web", "base"], ["4f2c"], [], undefined, undefined],
  ["two sources of one repository", ["web", "web"], ["4f2c"], [], "web", undefined],
])(
  "%s: a commit has the repository and the version that are certain",
  (_, repositories, commits, versions, repository, version) => {
    const row = { repositories, commits, versions };
    expect(repositoryAt(row, 0)).toBe(repository);
    expect(versionAt(row, 0)).toBe(version);
  },
);
