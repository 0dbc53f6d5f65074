// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { parseRef } from "./ref.ts";

test.each([
  ["main", "branch", "main"],
  ["feature/basket", "branch", "feature/basket"],
  ["v1.4.0", "branch", "v1.4.0"],
  ["tag:v1.4.0", "tag", "v1.4.0"],
  ["refs/pull/7/head", "name", "refs/pull/7/head"],
  ["4f2c".repeat(10), "commit", "4f2c".repeat(10)],
  ["4f2c".repeat(16), "commit", "4f2c".repeat(16)],
  ["commit:4f2c1e0", "commit", "4f2c1e0"],
  ["4f2c1e0", "branch", "4f2c1e0"],
])("%s is the %s %s, as the command line reads it", (text, kind, value) => {
  expect(parseRef(text)).toEqual({ selector: { case: kind, value } });
});
