// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { TimestampSchema, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { ms } from "./time.ts";

test("a time that protobuf does not allow is dropped", () => {
  expect(ms(undefined)).toBeUndefined();
  expect(ms(timestampFromMs(1_795_000_000_000))).toBe(1_795_000_000_000);
  expect(ms(timestampFromMs(253_402_300_799_999))).toBe(253_402_300_799_999);
  for (const seconds of [2n ** 62n, -(2n ** 62n), 253_402_300_800n]) {
    expect(ms(create(TimestampSchema, { seconds })), `${seconds} s`).toBeUndefined();
  }
});
