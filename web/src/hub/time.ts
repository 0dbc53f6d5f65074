// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";

/** The last millisecond of the year 9999, which is the last one that protobuf allows. */
const latest = 253_402_300_799_999;

/**
 * Returns a time in milliseconds, or undefined if there is no time, or one that protobuf does not allow. A cluster can
 * send such a time, and a browser throws when it writes one that is far enough away.
 */
export function ms(at: Timestamp | undefined): number | undefined {
  const time = at && timestampMs(at);
  return time !== undefined && Math.abs(time) <= latest ? time : undefined;
}
