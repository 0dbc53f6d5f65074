// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import { text } from "../text/en.ts";
import { classes } from "./classes.ts";
import styles from "./counters.module.css";
import { Phase, toneOf } from "./phase.tsx";

export interface Count {
  phase: string;
  count: number;
}

// From the worst to the best, so that the eye meets first what needs it.
const order = [
  "FAILED",
  "DISCONNECTED",
  "DEGRADED",
  "STALE",
  "PENDING",
  "SYNCING",
  "PROGRESSING",
  "CLONING",
  "NOT_JOINED",
  "UNKNOWN",
  "PAUSED",
  "SUSPENDED",
  "CONNECTED",
  "READY",
  "HEALTHY",
];

export const byUrgency = (counts: readonly Count[]): Count[] =>
  counts.filter(({ count }) => count > 0).sort((a, b) => order.indexOf(a.phase) - order.indexOf(b.phase));

/**
 * Counters shows how many objects of a kind there are, and their share by phase. The bar repeats the list below it, so
 * screen readers skip it.
 */
export function Counters({
  title,
  counts,
  link,
}: {
  title: ReactNode;
  counts: readonly Count[];
  link: (phase: string, children: ReactNode) => ReactNode;
}) {
  const sorted = byUrgency(counts);
  const total = sorted.reduce((sum, { count }) => sum + count, 0);
  return (
    <section className={styles.counters}>
      <div className={styles.head}>
        <h2>{title}</h2>
        <data className={styles.total} value={total}>
          {text.number(total)}
        </data>
      </div>
      <div className={styles.bar} aria-hidden="true">
        {sorted.map(({ phase, count }) => (
          <span key={phase} className={classes(styles.part, styles[toneOf(phase)])} style={{ flexGrow: count }} />
        ))}
      </div>
      {sorted.length === 0 ? (
        <p className={styles.none}>{text.none}</p>
      ) : (
        <ul className={styles.list}>
          {sorted.map(({ phase, count }) => (
            <li key={phase}>
              {link(
                phase,
                <>
                  <Phase phase={phase} />
                  <data className={styles.count} value={count}>
                    {text.number(count)}
                  </data>
                </>,
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
