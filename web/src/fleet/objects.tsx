// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ReactNode, useCallback, useMemo } from "react";
import type { FleetRow } from "../gen/leat/fleet/v1/query_pb";
import { useHub } from "../hub/hub.ts";
import { listSource, type Query } from "../hub/list.ts";
import { polled, useLive } from "../hub/live.ts";
import { Button } from "../parts/button.tsx";
import { Command } from "../parts/command.tsx";
import { FilterField } from "../parts/filter.tsx";
import { type Column, Grid } from "../parts/grid.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../parts/states.tsx";
import { delivery } from "../text/delivery.ts";
import { text } from "../text/en.ts";
import styles from "./list.module.css";
import { shellQuote } from "./refs.ts";

/** The most objects of such a list that the page holds, which is the hub's longest window. */
const most = 500;

export interface ObjectListProps<Entry> {
  kind: string;
  /** What leat get calls the kind. */
  noun: string;
  filter: string;
  onFilter: (filter: string) => void;
  /** Returns what the list shows of a row with its document, or undefined. */
  read: (row: FleetRow) => Entry | undefined;
  /** The more urgent of two, first. */
  compare: (a: Entry, b: Entry) => number;
  columns: readonly Column<Entry>[];
  entryKey: (entry: Entry) => string;
  onOpen: (entry: Entry) => void;
  empty: ReactNode;
  /** Milliseconds between two looks, for a kind whose documents count what others change: no stream tells of that. */
  every?: number;
}

/**
 * ObjectList is a list of a kind of which a hub has few objects, and whose state is in their documents. The hub filters
 * and counts them; it cannot order them by what needs a person first, so the page does, and says if there are more than
 * it holds.
 */
export function ObjectList<Entry>(props: ObjectListProps<Entry>) {
  const { kind, noun, filter, onFilter, read, compare, columns, entryKey, onOpen, empty, every } = props;
  const hub = useHub();
  const query: Query = { kind, filter, order: "name" };
  const { value, failure, link, store } = useLive(
    JSON.stringify(query),
    () => {
      const source = listSource(hub.query, query, { offset: 0, size: most }, true);
      return every ? polled(source.load, every, hub.surroundings) : source;
    },
    hub.surroundings,
  );
  const entries = useMemo(
    () => (value?.rows ?? []).flatMap((row) => read(row) ?? []).sort(compare),
    [value, read, compare],
  );
  const row = useCallback((index: number) => entries[index], [entries]);
  const isBadFilter = failure?.kind === "invalid";
  const command = [`leat get ${noun}`, filter && `--filter ${shellQuote(filter)}`].filter(Boolean).join(" ");
  return (
    <div className={styles.list}>
      <div className={styles.bar}>
        <div className={styles.filter}>
          <FilterField
            label={text.filterLabel(kind)}
            placeholder={text.filterPlaceholder(kind)}
            value={filter}
            error={isBadFilter ? failure?.message : undefined}
            onChange={onFilter}
          />
        </div>
      </div>
      {link === "reconnecting" && value && (
        <div className={styles.notice}>
          <Notice tone="warn" icon="offline" title={text.linkTitle.reconnecting} />
        </div>
      )}
      {value && value.total > value.rows.length && (
        <div className={styles.notice}>
          <Notice tone="idle" icon="info" title={delivery.cut(value.rows.length, value.total)} />
        </div>
      )}
      <div className={styles.rows}>
        {failure && !isBadFilter && (!value || link === "stopped") ? (
          <ErrorState failure={failure} onRetry={store.retry} command={command} />
        ) : !value ? (
          !isBadFilter && <Skeleton lines={12} />
        ) : entries.length === 0 ? (
          filter !== "" ? (
            <Empty
              icon="search"
              title={text.noMatch}
              action={<Button onClick={() => onFilter("")}>{text.clearFilter}</Button>}
            >
              <p>{text.noMatchBody}</p>
            </Empty>
          ) : (
            empty
          )
        ) : (
          <Grid
            key={filter}
            label={text.shownCount(entries.length, kind)}
            columns={columns}
            count={entries.length}
            row={row}
            rowKey={entryKey}
            onOpen={onOpen}
          />
        )}
      </div>
      <div className={styles.foot}>
        <Command label={text.sameAs}>{command}</Command>
      </div>
    </div>
  );
}
