// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { use } from "react";
import { classes } from "../parts/classes.ts";
import { Stale, type Tone } from "../parts/phase.tsx";
import styles from "./bar.module.css";

/**
 * Bar shows which shares of a whole have come how far. It repeats the words beside it, so screen readers skip it. While
 * the hub cannot confirm it, it has no colours.
 */
export function Bar({ parts, total }: { parts: readonly { tone: Tone; count: number }[]; total: number }) {
  const isStale = use(Stale);
  return (
    <span className={styles.bar} aria-hidden="true">
      {parts.map(
        ({ tone, count }) =>
          count > 0 && (
            <span
              key={tone}
              className={classes(styles.part, styles[isStale ? "idle" : tone])}
              style={{ inlineSize: `${(100 * count) / Math.max(total, 1)}%` }}
            />
          ),
      )}
    </span>
  );
}
