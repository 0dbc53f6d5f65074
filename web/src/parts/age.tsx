// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useSyncExternalStore } from "react";
import { text } from "../text/en.ts";
import { now, subscribeToClock } from "./clock.ts";

// Each unit with its seconds, and from how many of them it is used: 90 minutes say more than one hour.
const units = [
  ["year", 365 * 86400, 2],
  ["day", 86400, 2],
  ["hour", 3600, 2],
  ["minute", 60, 1],
  ["second", 1, 0],
] as const;

/**
 * Returns a time as its distance from now, in one unit. The clocks of a browser and of a cluster differ, so a time in
 * the near future is now.
 */
export function distance(at: number, from: number): string {
  let seconds = Math.round((at - from) / 1000);
  if (seconds > 0 && seconds < 60) seconds = 0;
  if (Math.abs(seconds) < 5) return text.now;
  for (const [unit, size, least] of units) {
    const n = Math.trunc(Math.abs(seconds) / size);
    if (n >= least) return seconds < 0 ? text.ago(n, unit) : text.until(n, unit);
  }
  return text.now;
}

/** Age shows how long ago a time was, keeps that true, and has the time itself in its title. */
export function Age({ at }: { at: number | undefined }) {
  const from = useSyncExternalStore(subscribeToClock, now);
  if (at === undefined) return null;
  const date = new Date(at);
  return (
    <time dateTime={date.toISOString()} title={text.exactTime(at)}>
      {distance(at, from)}
    </time>
  );
}
