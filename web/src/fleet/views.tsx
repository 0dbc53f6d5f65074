// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import styles from "./views.module.css";

/** Views are links to the ways to look at a page, side by side. The chosen one has aria-current. */
export function Views({ label, children }: { label: string; children: ReactNode }) {
  return (
    <nav className={styles.views} aria-label={label}>
      {children}
    </nav>
  );
}
