// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useSyncExternalStore } from "react";
import { now, subscribeToClock } from "./clock.ts";

const relative = new Intl.RelativeTimeFormat("en", { style: "narrow", numeric: "always" });
const absolute = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "long" });

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 365 * 86400],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/**
 * Returns a time as its distance from now, in the largest unit of which there are two. The clocks of a browser and of a
 * cluster differ, so a time in the near future is now.
 */
export function distance(at: number, from: number): string {
  let seconds = Math.round((at - from) / 1000);
  if (seconds > 0 && seconds < 60) seconds = 0;
  if (Math.abs(seconds) < 5) return "now";
  for (const [unit, size] of units) {
    const n = Math.trunc(seconds / size);
    if (Math.abs(n) >= 2 || unit === "second") return relative.format(n, unit);
  }
  return "now";
}

/** Age shows how long ago a time was, keeps that true, and has the time itself in its title. */
export function Age({ at }: { at: number | undefined }) {
  const from = useSyncExternalStore(subscribeToClock, now);
  if (at === undefined) return null;
  const date = new Date(at);
  return (
    <time dateTime={date.toISOString()} title={absolute.format(date)}>
      {distance(at, from)}
    </time>
  );
}
