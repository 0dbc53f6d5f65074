// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { bindingName, namesOf } from "./binding.ts";

const at = Date.UTC(2026, 10, 28, 9, 5, 59);

test("names are separated by commas and spaces, and each counts once", () => {
  expect(namesOf(" ada, grace\tada ,,linus ")).toEqual(["ada", "grace", "linus"]);
  expect(namesOf(" , ")).toEqual([]);
});

test("a binding's name says what it is about, and is one that the hub takes", () => {
  expect(bindingName(["ada", "berlin"], at)).toBe("ada-berlin-20261128t0905");
  expect(bindingName(["Ada.Lovelace@example.com", "berlin"], at)).toBe("ada-lovelace-example-com-berlin-20261128t0905");
  for (const about of [[], ["日本"], ["-"], ["a".repeat(300)], [`${"a".repeat(44)}-b`], ["<script>", "../.."]]) {
    expect(bindingName(about, at)).toMatch(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/);
  }
});
