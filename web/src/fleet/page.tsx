// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import styles from "./page.module.css";

/** ListPage fills the screen: its head stays, and its rows scroll. */
export function ListPage({ title, lead, children }: { title: string; lead?: ReactNode; children: ReactNode }) {
  return (
    <div className={styles.listPage}>
      <div className={styles.listHead}>
        <h1>{title}</h1>
        {lead}
      </div>
      {children}
    </div>
  );
}

/** Page is a page that scrolls as a whole. */
export function Page({ children }: { children: ReactNode }) {
  return <div className={styles.page}>{children}</div>;
}

/** Card is a part of a page with a heading of its own. */
export function Card({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  return (
    <section className={styles.card}>
      <div className={styles.cardHead}>
        <h2>{title}</h2>
        {note}
      </div>
      {children}
    </section>
  );
}

/** ListSection is a list of the fleet in a page: from edge to edge, and as high as a screen at most. */
export function ListSection({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={styles.listSection}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** Facts are names and values of an object. */
export function Facts({
  facts,
}: {
  facts: readonly (readonly [name: string, value: ReactNode] | false | undefined)[];
}) {
  return (
    <dl className={styles.facts}>
      {facts.map(
        (fact) =>
          fact && (
            <div key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
