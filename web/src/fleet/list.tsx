// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useCallback, useEffect, useId, useMemo, useRef, useState } from "react";
import type { FleetRow } from "../gen/leat/fleet/v1/query_pb";
import { useHub } from "../hub/hub.ts";
import { countsOf, listSource, type Query, type Range, type Window, windowFor } from "../hub/list.ts";
import { useLive } from "../hub/live.ts";
import { Button } from "../parts/button.tsx";
import { classes } from "../parts/classes.ts";
import { Command } from "../parts/command.tsx";
import { byUrgency } from "../parts/counters.tsx";
import { FilterField } from "../parts/filter.tsx";
import { orGone } from "../parts/gone.ts";
import { type Column, Grid, type Select } from "../parts/grid.tsx";
import { Dialog } from "../parts/overlay.tsx";
import { Phase, toneOf } from "../parts/phase.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../parts/states.tsx";
import { say } from "../parts/status.tsx";
import type { ListSearch } from "../shell/router.tsx";
import { text } from "../text/en.ts";
import { lists } from "../text/lists.ts";
import styles from "./list.module.css";
import { shellQuote } from "./refs.ts";
import { allOf, isSelected, noSelection, type Selection, sizeOf, withRows } from "./selection.ts";

// Most people look at a list, so what acts on many of it is loaded with the first selection.
const Bulk = lazy(() => orGone(import("./bulk.tsx")).then((module) => ({ default: module.Bulk })));

/** The most rows of a range that Shift selects. */
const mostRange = 500;

const firstRange: Range = { offset: 0, size: 100 };

/** Returns the terms of a search as one filter of the hub's language. */
export const filterOf = ({ filter, phase }: ListSearch, scope = ""): string =>
  [scope, filter, phase && `phase=${phase}`].filter(Boolean).join(" ");

export interface FleetListProps {
  kind: "Service" | "Cluster" | "Repository";
  /** What leat get calls the kind. */
  noun: string;
  search: ListSearch;
  onSearch: (search: ListSearch) => void;
  columns: readonly Column<FleetRow>[];
  /** Only the services of this cluster. */
  cluster?: string;
  /** Only what this filter selects, whatever the person asks for. */
  scope?: string;
  /** How the list is ordered until the person asks for another order. By name, unless it is given. */
  orderOf?: string;
  /** What stands between the filter and the rows, such as a map of all that the filter selects. */
  summary?: (window: Window) => ReactNode;
  empty: ReactNode;
  isOld?: (row: FleetRow) => boolean;
}

/**
 * FleetList is a list of the fleet: a filter, phases with their counts, and the rows in sight. The hub filters, sorts and
 * counts; the address holds the filter, so a pasted link shows the same.
 */
export function FleetList(props: FleetListProps) {
  const { kind, noun, search, onSearch, columns, cluster, scope = "", orderOf = "name", summary, empty, isOld } = props;
  const hub = useHub();
  const navigate = useNavigate();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const order = search.order ?? orderOf;
  const filter = filterOf(search, scope);
  const of = useMemo(() => ({ kind, ...(cluster && { cluster }) }), [kind, cluster]);

  const query: Query = { ...of, filter, order };
  const key = JSON.stringify(query);
  const list = useLive(key, () => listSource(hub.query, query, firstRange), hub.surroundings);
  const [asked, setAsked] = useState({ key, range: firstRange });
  const range = asked.key === key ? asked.range : firstRange;

  const countQuery: Query = { ...of, filter: filterOf(withoutPhase(search), scope), groupBy: ["phase"] };
  const counted = useCounts(countQuery, list.value, search.phase !== undefined);
  const counts = search.phase === undefined ? list.value : counted;

  const { store } = list;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key is the query
  const onRange = useCallback(
    (first: number, last: number) => {
      const next = windowFor(first, last, range);
      if (next.offset === range.offset && next.size === range.size) return;
      setAsked({ key, range: next });
      store.replace(listSource(hub.query, query, next));
    },
    [key, range, store, hub],
  );

  const window = list.value;
  const row = useCallback((index: number) => window?.rows[index - window.offset], [window]);
  const open = (found: FleetRow) => {
    if (kind === "Service") void navigate({ to: "/services/$", params: { _splat: found.ref } });
    if (kind === "Cluster") void navigate({ to: "/clusters/$", params: { _splat: found.ref } });
    if (kind === "Repository") void navigate({ to: "/repositories/$", params: { _splat: found.ref } });
  };

  const selecting = useSelection(JSON.stringify({ ...of, filter }), window, kind !== "Repository");

  const phases = byUrgency(countsOf(counts?.groups ?? [], "phase"));
  const chosen = search.phase?.split(",") ?? [];
  const choose = (phase: string) => {
    const next = chosen.includes(phase) ? chosen.filter((each) => each !== phase) : [...chosen, phase];
    const { phase: _, ...rest } = search;
    onSearch(next.length === 0 ? rest : { ...rest, phase: next.join(",") });
  };
  const clear = () => {
    const { phase: _, filter: __, ...rest } = search;
    onSearch(rest);
  };

  const isBadFilter = list.failure?.kind === "invalid";
  const isFiltered = filter !== scope;
  const command = [
    `leat get ${noun}`,
    cluster && `--cluster ${shellQuote(cluster)}`,
    filter && `--filter ${shellQuote(filter)}`,
    order !== "name" && `--sort ${shellQuote(order)}`,
  ]
    .filter(Boolean)
    .join(" ");

  return (
    <div className={styles.list}>
      <div className={styles.bar}>
        <div className={styles.filter}>
          <FilterField
            label={text.filterLabel(kind)}
            placeholder={text.filterPlaceholder(kind)}
            value={search.filter ?? ""}
            error={isBadFilter ? list.failure?.message : undefined}
            onChange={(filter) => {
              const { filter: _, ...rest } = search;
              onSearch(filter === "" ? rest : { ...rest, filter });
            }}
          />
          <Button kind="quiet" icon="info" iconOnly onClick={() => setHelpOpen(true)}>
            {lists.filterHelp}
          </Button>
        </div>
        {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a row that wraps */}
        <div className={styles.phases} role="group" aria-label={text.column.phase}>
          <button
            type="button"
            className={styles.chip}
            aria-pressed={chosen.length === 0}
            onClick={() => onSearch(withoutPhase(search))}
          >
            {text.all}
            <data value={counts?.total ?? 0}>{counts ? text.number(counts.total) : "…"}</data>
          </button>
          {phases.map(({ phase, count }) => (
            <button
              key={phase}
              type="button"
              className={classes(styles.chip, styles[toneOf(phase)])}
              aria-pressed={chosen.includes(phase)}
              onClick={() => choose(phase)}
            >
              <Phase phase={phase} />
              <data value={count}>{text.number(count)}</data>
            </button>
          ))}
        </div>
      </div>
      {list.link === "reconnecting" && window && (
        <div className={styles.notice}>
          <Notice tone="warn" icon="offline" title={text.linkTitle.reconnecting} />
        </div>
      )}
      {summary && window && summary(window)}
      {selecting.isActing && (
        <Suspense fallback={<Skeleton lines={1} />}>
          <Bulk
            query={{ ...of, filter }}
            total={window?.total ?? 0}
            selection={selecting.selection}
            onSelection={selecting.set}
            onIdle={selecting.close}
          />
        </Suspense>
      )}
      <div className={styles.rows}>
        {list.failure && !isBadFilter && (!window || list.link === "stopped") ? (
          <ErrorState failure={list.failure} onRetry={store.retry} command={command} />
        ) : !window ? (
          !isBadFilter && <Skeleton lines={12} />
        ) : window.total === 0 ? (
          isFiltered ? (
            <Empty icon="search" title={text.noMatch} action={<Button onClick={clear}>{text.clearFilter}</Button>}>
              <p>{text.noMatchBody}</p>
            </Empty>
          ) : (
            empty
          )
        ) : (
          <Grid
            key={key}
            label={text.shownCount(window.total, kind)}
            columns={columns}
            count={window.total}
            row={row}
            rowKey={(found) => found.ref}
            order={order}
            onOrder={(next) => {
              const { order: _, ...rest } = search;
              onSearch(next === orderOf ? rest : { ...rest, order: next });
            }}
            onRange={onRange}
            onOpen={open}
            {...(isOld && { isOld })}
            {...(selecting.of && { select: selecting.of })}
          />
        )}
      </div>
      <div className={styles.foot}>
        <Command label={text.sameAs}>{command}</Command>
      </div>
      <FilterHelp isOpen={isHelpOpen} onClose={() => setHelpOpen(false)} />
    </div>
  );
}

/**
 * Returns what the person has selected of a list. Another filter is another list, and what is out of sight must not be
 * acted upon, so its selection begins again. Shift selects what is between two rows of the window.
 */
function useSelection(key: string, window: Window | undefined, isOffered: boolean) {
  const [held, setHeld] = useState({ key, selection: noSelection, anchor: 0 });
  const [isActing, setActing] = useState(false);
  const selection = held.key === key ? held.selection : noSelection;
  const anchor = held.key === key ? held.anchor : 0;
  const set = useCallback(
    (next: Selection) => setHeld((before) => ({ key, selection: next, anchor: before.anchor })),
    [key],
  );
  const select = (next: Selection, anchor: number) => {
    setHeld({ key, selection: next, anchor });
    setActing(true);
  };
  const size = sizeOf(selection);
  const of: Select<FleetRow> = {
    isSelected: ({ ref }) => isSelected(selection, ref),
    state: size === 0 ? "none" : selection.isAll && selection.rows.size === 0 ? "all" : "some",
    label: ({ ref }) => text.select(ref),
    allLabel: text.selectAll(window?.total ?? 0),
    onAll: () => select(size === 0 ? allOf(window?.total ?? 0) : noSelection, 0),
    onSelect: (row, index, isRange) => {
      const isOn = !isSelected(selection, row.ref);
      const [first, last] = [Math.min(anchor, index), Math.max(anchor, index)];
      const offset = window?.offset ?? 0;
      const range = window?.rows.slice(Math.max(0, first - offset), last - offset + 1) ?? [];
      const isWhole = isRange && range.length === last - first + 1 && range.length <= mostRange;
      if (isRange && !isWhole) say(lists.rangeTooLong);
      else select(withRows(selection, isWhole ? range : [row], isOn), index);
    },
  };
  const close = useCallback(() => setActing(false), []);
  return { selection, set, isActing, close, of: isOffered ? of : undefined };
}

/**
 * Returns the counts of everything that the text selects, or a chosen phase would hide the others. While no phase is
 * chosen the list has them already. Otherwise a call counts, and again after the list has changed: a page has few
 * streams. One call runs at a time, because a busy fleet changes more often than a slow hub answers.
 */
function useCounts(query: Query, listed: Window | undefined, isNeeded: boolean): Window | undefined {
  const hub = useHub();
  const source = () => {
    const { load } = listSource(hub.query, query, { offset: 0, size: 1 });
    return { load: async (signal: AbortSignal) => (isNeeded ? load(signal) : undefined) };
  };
  const { value, store } = useLive<Window | undefined>(JSON.stringify([query, isNeeded]), source, hub.surroundings);
  const latest = useRef<{ value: Window; listed: Window }>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the store has the query as its key
  useEffect(() => {
    if (!value || !listed || latest.current?.value === value || latest.current?.listed === listed) return;
    latest.current = { value, listed };
    store.replace(source());
  }, [value, listed, store]);
  return value;
}

function withoutPhase({ phase: _, ...rest }: ListSearch): ListSearch {
  return rest;
}

function FilterHelp({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const id = useId();
  return (
    <Dialog title={lists.filterHelp} isOpen={isOpen} onClose={onClose}>
      <dl className={styles.help} id={id}>
        {lists.filterHelpRows.map(([term, meaning]) => (
          <div key={term}>
            <dt>
              <code>{term}</code>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
