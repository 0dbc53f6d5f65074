// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Where the ticks of a chart are.

/** Returns at most so many round figures from 0 to at least the largest one, and the last of them ends the axis. */
export function figures(largest: number, most = 5): number[] {
  if (!Number.isFinite(largest) || largest <= 0) return [0, 1];
  const least = largest / (most - 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= least * 0.999999) ?? 10) * power;
  const ticks = [];
  for (let i = 0; i <= most; i++) {
    ticks.push(i * step);
    if (i * step >= largest) break;
  }
  return ticks;
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const spans = [
  minute,
  5 * minute,
  10 * minute,
  15 * minute,
  30 * minute,
  hour,
  2 * hour,
  4 * hour,
  6 * hour,
  12 * hour,
];

/** Returns round local times within a span, at most so many. */
export function times(from: number, to: number, most: number): number[] {
  const least = (to - from) / Math.max(1, most);
  const step = spans.find((each) => each >= least) ?? Math.ceil(least / day) * day;
  // Local midnight is round, and a day of 23 or 25 hours moves the ticks behind it by one.
  const midnight = new Date(from);
  midnight.setHours(0, 0, 0, 0);
  const ticks = [];
  for (let at = midnight.getTime(); at <= to && ticks.length <= most; at += step) if (at >= from) ticks.push(at);
  return ticks;
}

/** Returns the index of the time that is nearest, in times that ascend. */
export function nearest(all: readonly number[], at: number): number {
  let low = 0;
  let high = all.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((all[middle] as number) <= at) low = middle;
    else high = middle;
  }
  return high > low && Math.abs((all[high] as number) - at) < Math.abs((all[low] as number) - at) ? high : low;
}
