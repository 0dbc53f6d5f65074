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
  [-5 * second, "5 sec ago"],
  [-59 * second, "59 sec ago"],
  [-71 * second, "1 min ago"],
  [-2 * 60 * second, "2 min ago"],
  [-119 * 60 * second, "119 min ago"],
  [-2 * hour, "2 hr ago"],
  [-47 * hour, "47 hr ago"],
  [-2 * day, "2 days ago"],
  [-400 * day, "400 days ago"],
  [-800 * day, "2 yrs ago"],
  [59 * second, "now"],
  [3 * hour, "in 3 hr"],
])("%i ms from now is %s", (offset, words) => {
  expect(distance(now + offset, now)).toBe(words);
});
