// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

const ms = (n: number) => ({ seconds: BigInt(Math.floor(n / 1000)), nanos: (n % 1000) * 1_000_000 });

/** Returns how long a commit took to arrive at so many services, as the hub answers. */
export const arrivalOf = (all: number) => ({
  applied: { count: all - 28, pending: 0, unknown: 28, p50: ms(3500), p90: ms(9000), p99: ms(41_000), max: ms(96_000) },
  healthy: {
    count: all - 28 - Math.floor(all / 10),
    pending: Math.floor(all / 10),
    unknown: 28,
    p50: ms(12_000),
    p90: ms(48_200),
    p99: ms(100_000),
    max: ms(243_000),
    slowest: [
      { ref: "web@osaka", took: ms(243_000) },
      { ref: "checkout@edge/frankfurt-airport-terminal-2", took: ms(201_000) },
      { ref: "payments@quito", took: ms(188_000) },
    ],
  },
});
