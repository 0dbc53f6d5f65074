// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type KeyboardEvent, type MouseEvent, memo, type ReactNode, useEffect, useMemo } from "react";
import { text } from "../text/en.ts";
import { classes } from "./classes.ts";
import styles from "./grid.module.css";
import { Icon } from "./icon.tsx";
import { isOnRow, useNarrow, useRows } from "./rows.ts";

/** Place is where a cell stands in the two lines of a row on a narrow screen. */
export type Place = "title" | "state" | "note" | "end";

export interface Column<Row> {
  id: string;
  title: string;
  /** Width as a track of CSS grid, such as "minmax(12rem, 2fr)". */
  width: string;
  /** Without one, the column is left out on a narrow screen. */
  place?: Place;
  /** The order that a press on the title asks for, and how that order sorts first. */
  order?: string;
  isNumber?: boolean;
  cell: (row: Row) => ReactNode;
}

export interface GridProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  /** How many rows there are in all. Only those in sight are in the page. */
  count: number;
  /** Returns a row, or undefined while it is on its way. */
  row: (index: number) => Row | undefined;
  rowKey: (row: Row) => string;
  /** The order of now, as "name" or "-name". */
  order?: string;
  onOrder?: (order: string) => void;
  /** Is called with the rows in sight, so that the caller can ask for them. */
  onRange?: (first: number, last: number) => void;
  onOpen?: (row: Row) => void;
  isOld?: (row: Row) => boolean;
  select?: Select<Row>;
}

/** Select lets people choose rows: by a box, or by the space bar on a row; with Shift all up to it. */
export interface Select<Row> {
  isSelected: (row: Row) => boolean;
  /** Whether all rows are selected, or some. */
  state: "none" | "some" | "all";
  label: (row: Row) => string;
  allLabel: string;
  onSelect: (row: Row, index: number, isRange: boolean) => void;
  onAll: () => void;
}

export const places = { title: "first", state: "state", note: "note", end: "end" } as const;

/** How high a row is, and how high with the two lines of a narrow screen. */
export const wide = 36;
export const narrow = 64;

/**
 * Grid shows a window of up to millions of rows. One row is in the tab order; arrows, Page Up and Down, Home and End move
 * it, and Enter opens it. The row with the focus stays in the page when it scrolls out of sight, so the focus is never
 * lost.
 */
export function Grid<Row>(props: GridProps<Row>) {
  const { columns, count, row, rowKey, onRange, onOpen, select } = props;
  const isNarrow = useNarrow();
  const height = isNarrow ? narrow : wide;
  const { scroller, virtual, current, setActive, move } = useRows({ count, height });

  const first = virtual.range?.startIndex ?? 0;
  const last = virtual.range?.endIndex ?? 0;
  useEffect(() => {
    if (count > 0) onRange?.(first, last);
  }, [first, last, count, onRange]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (select && event.key === " " && (event.target as HTMLElement).dataset.index !== undefined) {
      const found = row(current);
      event.preventDefault();
      if (found !== undefined) select.onSelect(found, current, event.shiftKey);
      return;
    }
    if (!isOnRow(event) || move(event) || event.key !== "Enter") return;
    const found = row(current);
    if (found !== undefined) {
      event.preventDefault();
      onOpen?.(found);
    }
  };

  const open = (event: MouseEvent) => {
    // A link in the row leads by itself, and a selection of text is not a click.
    const target = event.target as HTMLElement;
    if (target.closest("a, button, label") || getSelection()?.toString()) return;
    const index = target.closest<HTMLElement>("[data-index]")?.dataset.index;
    const found = index === undefined ? undefined : row(Number(index));
    if (found !== undefined) onOpen?.(found);
  };

  const shown = useMemo(() => (isNarrow ? columns.filter((column) => column.place) : columns), [isNarrow, columns]);
  const template = [select && "1.5rem", ...shown.map((column) => column.width)].filter(Boolean).join(" ");
  return (
    <div ref={scroller} className={styles.scroller}>
      <div
        role="grid"
        aria-label={props.label}
        aria-rowcount={count + 1}
        aria-colcount={shown.length + (select ? 1 : 0)}
        aria-multiselectable={select !== undefined}
        className={styles.grid}
        onKeyDown={onKeyDown}
      >
        <div role="rowgroup" className={styles.headGroup}>
          <div role="row" aria-rowindex={1} className={styles.head} style={{ gridTemplateColumns: template }}>
            {select && (
              <div role="columnheader" className={styles.title}>
                <Check label={select.allLabel} state={select.state} onPress={select.onAll} />
              </div>
            )}
            {shown.map((column) => (
              <Title key={column.id} column={column} order={props.order} onOrder={props.onOrder} />
            ))}
          </div>
        </div>
        <div
          role="rowgroup"
          className={styles.body}
          style={{ blockSize: virtual.getTotalSize() }}
          onClick={open}
          onFocus={(event) => {
            const index = (event.target as HTMLElement).closest<HTMLElement>("[data-index]")?.dataset.index;
            if (index !== undefined) setActive(Number(index));
          }}
        >
          {virtual.getVirtualItems().map(({ index, start }) => {
            const found = row(index);
            return (
              <MemoRow
                key={found === undefined ? `#${index}` : rowKey(found)}
                found={found}
                index={index}
                isCurrent={index === current}
                isOld={found !== undefined && props.isOld?.(found) === true}
                opens={onOpen !== undefined}
                start={start}
                height={height}
                template={isNarrow ? undefined : template}
                columns={shown as readonly Column<unknown>[]}
                isSelected={select && found !== undefined ? select.isSelected(found) : undefined}
                select={select as Select<unknown> | undefined}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** A row is rendered again when it or its place changes, and not while others scroll by. */
const MemoRow = memo(function GridRow({
  found,
  index,
  isCurrent,
  isOld,
  opens,
  start,
  height,
  template,
  columns,
  isSelected,
  select,
}: {
  found: unknown;
  index: number;
  isCurrent: boolean;
  isOld: boolean;
  opens: boolean;
  start: number;
  height: number;
  template: string | undefined;
  columns: readonly Column<unknown>[];
  isSelected: boolean | undefined;
  select: Select<unknown> | undefined;
}) {
  const before = select ? 1 : 0;
  return (
    <div
      role="row"
      aria-selected={isSelected}
      data-index={index}
      aria-rowindex={index + 2}
      tabIndex={isCurrent ? 0 : -1}
      className={classes(
        styles.row,
        isOld && styles.old,
        opens && styles.opens,
        select && styles.selectable,
        isSelected === true && styles.selected,
      )}
      style={{
        blockSize: height,
        transform: `translateY(${start}px)`,
        ...(template !== undefined && { gridTemplateColumns: template }),
      }}
    >
      {select && (
        <div role="gridcell" aria-colindex={1} className={styles.check}>
          {found !== undefined && (
            <Check
              label={select.label(found)}
              state={isSelected ? "all" : "none"}
              onPress={(isRange) => select.onSelect(found, index, isRange)}
              isInRow
            />
          )}
        </div>
      )}
      {columns.map((column, at) => (
        <div
          key={column.id}
          role="gridcell"
          aria-colindex={at + 1 + before}
          className={classes(
            styles.cell,
            column.isNumber && styles.number,
            column.place && styles[places[column.place]],
          )}
        >
          {found === undefined ? <span className={styles.waiting} /> : column.cell(found)}
        </div>
      ))}
    </div>
  );
});

/** Check is a box for a row, or for all. That of a row is no stop of the keyboard, because the row itself is one. */
function Check({
  label,
  state,
  onPress,
  isInRow,
}: {
  label: string;
  state: "none" | "some" | "all";
  onPress: (isRange: boolean) => void;
  isInRow?: boolean;
}) {
  return (
    <label className={styles.checkLabel}>
      <input
        type="checkbox"
        aria-label={label}
        tabIndex={isInRow ? -1 : undefined}
        checked={state === "all"}
        ref={(box) => {
          if (box) box.indeterminate = state === "some";
        }}
        onChange={(event) => onPress((event.nativeEvent as globalThis.MouseEvent).shiftKey === true)}
      />
    </label>
  );
}

function Title<Row>({
  column,
  order,
  onOrder,
}: {
  column: Column<Row>;
  order: string | undefined;
  onOrder: ((order: string) => void) | undefined;
}) {
  const isUp = order === column.order;
  const isDown = order === `-${column.order}`;
  const isSorted = column.order !== undefined && (isUp || isDown);
  return (
    <div
      role="columnheader"
      aria-sort={isSorted ? (isUp ? "ascending" : "descending") : undefined}
      className={classes(styles.title, column.isNumber && styles.number, isSorted && styles.sorted)}
    >
      {column.order !== undefined && onOrder ? (
        <button type="button" onClick={() => onOrder(isUp ? `-${column.order}` : (column.order as string))}>
          {column.title}
          <span className={styles.arrow}>{isSorted && <Icon name={isUp ? "arrowDown" : "arrowUp"} />}</span>
          <span className="unseen">{text.sortBy}</span>
        </button>
      ) : (
        column.title
      )}
    </div>
  );
}
