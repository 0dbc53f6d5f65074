// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { distance } from "./age.tsx";

const now = Date.UTC(2026, 10, 28, 12);
const second = 1000;
const hour = 3600 * second;
const day = 24 * hour;

test.each([
  [0, "now"],
  [-4 * second, "now"],
  [-5 * second, "5s ago"],
  [-90 * second, "90s ago"],
  [-2 * 60 * second, "2m ago"],
  [-119 * 60 * second, "119m ago"],
  [-2 * hour, "2h ago"],
  [-47 * hour, "47h ago"],
  [-2 * day, "2d ago"],
  [-400 * day, "400d ago"],
  [-800 * day, "2y ago"],
  [59 * second, "now"],
  [3 * hour, "in 3h"],
])("%i ms from now is %s", (offset, words) => {
  expect(distance(now + offset, now)).toBe(words);
});
