// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type KeyboardEvent, type MouseEvent, useEffect } from "react";
import { classes } from "./classes.ts";
import { IsCurrent } from "./current.ts";
import grid from "./grid.module.css";
import { type Column, narrow, places, wide } from "./grid.tsx";
import { Icon } from "./icon.tsx";
import styles from "./outline.module.css";
import { isOnRow, useNarrow, useRows } from "./rows.ts";

/** Branch is one row of an outline that is in sight, because everything above it is unfolded. */
export interface Branch<Item> {
  key: string;
  item: Item;
  /** How deep it is, from 1. */
  level: number;
  /** Which of its siblings it is, from 1, and how many there are. */
  position: number;
  size: number;
  /** undefined: nothing is below it. */
  isOpen?: boolean;
}

export interface OutlineProps<Item> {
  label: string;
  /** The first one has the outline's lines and signs. */
  columns: readonly Column<Item>[];
  branches: readonly Branch<Item>[];
  onFold: (branch: Branch<Item>, isOpen: boolean) => void;
  /** Opens what has nothing below it. */
  onOpen?: (item: Item) => void;
  /** The row that is in sight at first. */
  start?: number;
}

/**
 * Outline shows a tree of up to tens of thousands of rows, as a treegrid. Its keys are those of a Grid; the right arrow
 * unfolds a row and then leads below it, the left arrow folds it and then leads above it, and Enter does what a click
 * does.
 */
export function Outline<Item>({ label, columns, branches, onFold, onOpen, start = 0 }: OutlineProps<Item>) {
  const isNarrow = useNarrow();
  const height = isNarrow ? narrow : wide;
  const count = branches.length;
  const { scroller, virtual, current, setActive, focus, move } = useRows({ count, height, start });

  // biome-ignore lint/correctness/useExhaustiveDependencies: only the first place is the outline's own choice
  useEffect(() => {
    if (start > 0) virtual.scrollToIndex(start, { align: "center" });
  }, []);

  const act = (branch: Branch<Item>) => {
    if (branch.isOpen !== undefined) onFold(branch, !branch.isOpen);
    else onOpen?.(branch.item);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const branch = branches[current];
    if (!branch || !isOnRow(event) || move(event)) return;
    const isRtl = getComputedStyle(event.currentTarget).direction === "rtl";
    const inward = isRtl ? "ArrowLeft" : "ArrowRight";
    const outward = isRtl ? "ArrowRight" : "ArrowLeft";
    if (event.key === "Enter" || event.key === " ") act(branch);
    else if (event.key === inward && branch.isOpen === false) onFold(branch, true);
    else if (event.key === inward && branch.isOpen) focus(current + 1);
    else if (event.key === outward && branch.isOpen) onFold(branch, false);
    else if (event.key === outward) {
      const parent = branches.slice(0, current).findLastIndex((other) => other.level < branch.level);
      if (parent >= 0) focus(parent);
    } else return;
    event.preventDefault();
  };

  const click = (event: MouseEvent, branch: Branch<Item>) => {
    // A link in the row leads by itself, a selection of text is not a click, and a dialog of the row is not in it.
    const target = event.target as HTMLElement;
    if (target.closest("a, button") || getSelection()?.toString() || !event.currentTarget.contains(target)) return;
    act(branch);
  };

  const shown = isNarrow ? columns.filter((column) => column.place) : columns;
  const template = shown.map((column) => column.width).join(" ");
  return (
    <div
      className={styles.frame}
      style={{ blockSize: `calc(${count * height}px + ${isNarrow ? "0px" : "2.25rem + 1px"})` }}
    >
      <div ref={scroller} className={grid.scroller}>
        <div
          role="treegrid"
          aria-label={label}
          aria-rowcount={count + 1}
          aria-colcount={shown.length}
          className={classes(grid.grid, styles.grid)}
          onKeyDown={onKeyDown}
        >
          <div role="rowgroup" className={grid.headGroup}>
            <div role="row" aria-rowindex={1} className={grid.head} style={{ gridTemplateColumns: template }}>
              {shown.map((column) => (
                <div
                  key={column.id}
                  role="columnheader"
                  className={classes(grid.title, column.isNumber === true && grid.number)}
                >
                  {column.title}
                </div>
              ))}
            </div>
          </div>
          <div role="rowgroup" className={grid.body} style={{ blockSize: virtual.getTotalSize() }}>
            {virtual.getVirtualItems().map(({ index, start: offset }) => {
              const branch = branches[index];
              if (!branch) return null;
              const acts = branch.isOpen !== undefined || onOpen !== undefined;
              return (
                <div
                  key={branch.key}
                  role="row"
                  data-index={index}
                  aria-rowindex={index + 2}
                  aria-level={branch.level}
                  aria-posinset={branch.position}
                  aria-setsize={branch.size}
                  aria-expanded={branch.isOpen}
                  tabIndex={index === current ? 0 : -1}
                  className={classes(grid.row, acts && grid.opens)}
                  style={{
                    blockSize: height,
                    transform: `translateY(${offset}px)`,
                    ...(isNarrow ? {} : { gridTemplateColumns: template }),
                  }}
                  onFocus={() => setActive(index)}
                  onClick={(event) => click(event, branch)}
                >
                  {shown.map((column, at) => (
                    <div
                      key={column.id}
                      role="gridcell"
                      aria-colindex={at + 1}
                      className={classes(
                        grid.cell,
                        column.isNumber === true && grid.number,
                        column.place && grid[places[column.place]],
                        at === 0 && styles.first,
                      )}
                      style={
                        at === 0 ? { paddingInlineStart: `${(branch.level - 1) * (isNarrow ? 0.75 : 1.25)}rem` } : {}
                      }
                    >
                      {at === 0 && (
                        <span className={classes(styles.sign, branch.isOpen === true && styles.open)}>
                          {branch.isOpen !== undefined && <Icon name="chevron" />}
                        </span>
                      )}
                      <IsCurrent value={index === current}>{column.cell(branch.item)}</IsCurrent>
                    </div>
                  ))}
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}
