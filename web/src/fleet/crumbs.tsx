// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Fragment, type ReactNode } from "react";
import { Icon } from "../parts/icon.tsx";
import styles from "./crumbs.module.css";

/** The options of a link among crumbs. Without them, the router calls what a page is in the current page, too. */
export const outer = { exact: true };

/** Crumbs are the links to what a page is in, the outermost first. */
export function Crumbs({ label, children }: { label: string; children: readonly ReactNode[] }) {
  return (
    <nav className={styles.crumbs} aria-label={label}>
      {children.map((crumb, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the crumbs of a page never move
        <Fragment key={index}>
          {index > 0 && <Icon name="chevron" />}
          {crumb}
        </Fragment>
      ))}
    </nav>
  );
}
