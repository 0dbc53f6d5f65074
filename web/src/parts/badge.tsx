// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import styles from "./badge.module.css";
import { classes } from "./classes.ts";
import type { Tone } from "./phase.tsx";

/** Badge is a short word about an object: a label, a mode, a count. */
export function Badge({ tone = "idle", children, mono }: { tone?: Tone; children: ReactNode; mono?: boolean }) {
  return <span className={classes(styles.badge, styles[tone], mono && styles.mono)}>{children}</span>;
}
