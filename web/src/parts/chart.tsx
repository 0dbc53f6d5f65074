// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type KeyboardEvent, type PointerEvent, useId, useLayoutEffect, useRef, useState } from "react";
import { charts as words } from "../text/charts.ts";
import { figures, nearest, times } from "./axis.ts";
import styles from "./chart.module.css";
import { classes } from "./classes.ts";

export interface ChartLine {
  name: string;
  points: readonly (readonly [number, number])[];
}

/** ChartMark is something that happened. */
export interface ChartMark {
  key: string;
  at: number;
  /** A short name, beside the mark. */
  label: string;
  /** A sentence about it. */
  words: string;
}

/** Bound is a figure that lines are compared with. */
export interface Bound {
  key: string;
  value: number;
  label: string;
}

const height = 220;
const top = 28;
const bottom = 24;
const left = 64;
const right = 12;
/** How many colours lines have; with each further round they have other dashes. */
const inks = 6;
const spoken = 3;

/** Returns the classes by which a line is told from others, in the chart and in a table beside it. */
export const inkOf = (index: number): string =>
  classes(styles.line, styles[`ink${index % inks}`], styles[`dash${Math.floor(index / inks) % 4}`]);

/** Swatch is a piece of a line, for a legend. */
export const Swatch = ({ index }: { index: number }) => (
  <svg className={styles.swatch} width="24" height="8" aria-hidden="true">
    <line className={inkOf(index)} x1="0" x2="24" y1="4" y2="4" />
  </svg>
);

/** Returns the figure of a line at a time, or undefined where it has none within a step. */
export function valueAt({ points }: ChartLine, at: number, step: number): number | undefined {
  const point =
    points[
      nearest(
        points.map(([time]) => time),
        at,
      )
    ];
  return point && Math.abs(point[0] - at) <= step ? point[1] : undefined;
}

/** Returns a line as a path with a gap wherever figures are missing. */
function pathOf(line: ChartLine, step: number, x: (at: number) => number, y: (value: number) => number): string {
  let path = "";
  let before = Number.NEGATIVE_INFINITY;
  for (const [at, value] of line.points) {
    path += `${at - before > 2.5 * step ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    before = at;
  }
  // A figure alone is a dot.
  return path.replace(/M([\d.-]+ [\d.-]+)(?=M|$)/g, "M$1h0.1");
}

/** Group is marks that are too near to be told apart. */
interface Group {
  /** Where its flag begins. */
  start: number;
  marks: ChartMark[];
}

/** Returns the label that all marks of a group have, or else the first and the last, or their number. */
function nameOf({ marks }: Group): string {
  const first = marks[0]?.label ?? "";
  const last = marks.at(-1)?.label ?? "";
  if (first !== last) return `${first}–${last}`;
  return marks.every(({ label }) => label === first) ? first : words.marked(marks.length);
}

/** Returns the width of a flag with a label, or a little more: flags that would meet are one, so each can be touched. */
const widthOf = (label: string): number => Math.max(28, 10 + 7 * label.length);

const sentencesOf = ({ marks }: Group): string => marks.map((mark) => mark.words).join(". ");

/**
 * TimeChart draws lines over time, with marks. Its cursor is a slider: arrow keys move it from point to point, and screen
 * readers read the time and the largest figures there. The table beside it has the figures in words.
 */
export function TimeChart({
  title,
  lines,
  bounds,
  marks,
  from,
  to,
  step,
  at,
  onMove,
  write,
}: {
  title: string;
  lines: readonly ChartLine[];
  bounds: readonly Bound[];
  marks: readonly ChartMark[];
  from: number;
  to: number;
  step: number;
  /** Where the cursor is. undefined: nowhere, and the keyboard begins at the end. */
  at: number | undefined;
  onMove: (at: number | undefined) => void;
  write: (value: number) => string;
}) {
  const id = useId();
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  const [told, setTold] = useState<Group>();
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(200, element.clientWidth)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const largest = Math.max(
    0,
    ...lines.flatMap(({ points }) => points.map(([, value]) => value)),
    ...bounds.map((each) => each.value),
  );
  const ticks = figures(largest);
  const end = ticks.at(-1) ?? 1;
  const x = (time: number) => left + ((time - from) / Math.max(1, to - from)) * (width - left - right);
  const y = (value: number) => top + (1 - value / end) * (height - top - bottom);
  const hours = times(from, to, Math.max(2, Math.floor((width - left - right) / 90)));
  const isLong = to - from > 2 * 86_400_000;

  const groups: Group[] = [];
  for (const mark of marks) {
    const start = Math.max(left - 14, Math.min(x(mark.at) - 14, width - widthOf(mark.label)));
    const last = groups.at(-1);
    if (last && start < last.start + widthOf(nameOf(last))) last.marks.push(mark);
    else groups.push({ start, marks: [mark] });
  }

  const all = [...new Set(lines.flatMap(({ points }) => points.map(([time]) => time)))].sort((a, b) => a - b);
  const index = at === undefined ? all.length - 1 : nearest(all, at);
  const here = all[index];
  const move = (to: number) => onMove(all[Math.min(all.length - 1, Math.max(0, to))]);
  const onKeyDown = (event: KeyboardEvent) => {
    const far = Math.ceil(all.length / 10);
    const moves: Record<string, number> = {
      ArrowLeft: index - 1,
      ArrowDown: index - 1,
      ArrowRight: index + 1,
      ArrowUp: index + 1,
      PageDown: index - far,
      PageUp: index + far,
      Home: 0,
      End: all.length - 1,
    };
    const next = moves[event.key];
    if (event.key === "Escape") onMove(undefined);
    else if (next !== undefined) move(at === undefined && event.key.startsWith("Arrow") ? all.length - 1 : next);
    else return;
    event.preventDefault();
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>) => {
    const place = event.clientX - event.currentTarget.getBoundingClientRect().left;
    const time = from + ((place - left) / Math.max(1, width - left - right)) * (to - from);
    move(nearest(all, time));
  };
  const values = lines
    .map((line) => ({ name: line.name, value: here === undefined ? undefined : valueAt(line, here, step) }))
    .filter((each): each is { name: string; value: number } => each.value !== undefined)
    .sort((a, b) => b.value - a.value);
  const said = values.slice(0, spoken).map(({ name, value }) => words.of(name, write(value)));
  if (values.length > spoken) said.push(words.more(values.length - spoken));

  return (
    <figure className={styles.figure} aria-labelledby={id}>
      <figcaption id={id} className={styles.title}>
        <span>{title}</span>
        {bounds.map((bound) => (
          <span key={bound.key} className={styles.bound}>
            <svg width="24" height="8" aria-hidden="true">
              <line className={styles[bound.key]} x1="0" x2="24" y1="4" y2="4" />
            </svg>
            {bound.label}
          </span>
        ))}
      </figcaption>
      <div className={styles.stage}>
        <div
          ref={frame}
          className={styles.plot}
          role="slider"
          tabIndex={0}
          aria-label={words.cursor(title)}
          aria-valuemin={0}
          aria-valuemax={Math.max(0, all.length - 1)}
          aria-valuenow={Math.max(0, index)}
          aria-valuetext={words.values(words.moment(here ?? to), said.join(", "))}
          onKeyDown={onKeyDown}
          onPointerMove={onPointerMove}
          onPointerLeave={() => onMove(undefined)}
        >
          <svg width={width} height={height} aria-hidden="true">
            {ticks.map((tick) => (
              <g key={tick}>
                <line className={styles.grid} x1={left} x2={width - right} y1={y(tick)} y2={y(tick)} />
                <text className={styles.tick} x={left - 8} y={y(tick) + 4} textAnchor="end">
                  {write(tick)}
                </text>
              </g>
            ))}
            {hours.map((hour) => (
              <text key={hour} className={styles.tick} x={x(hour)} y={height - 6} textAnchor="middle">
                {isLong ? words.day(hour) : words.hour(hour)}
              </text>
            ))}
            {bounds.map((bound) => (
              <line
                key={bound.key}
                className={styles[bound.key]}
                x1={left}
                x2={width - right}
                y1={y(bound.value)}
                y2={y(bound.value)}
              />
            ))}
            {groups.flatMap(({ marks }) =>
              marks.map((mark) => (
                <line key={mark.key} className={styles.mark} x1={x(mark.at)} x2={x(mark.at)} y1={top - 4} y2={y(0)} />
              )),
            )}
            {lines.map((line, index) => (
              <path key={line.name} className={inkOf(index)} d={pathOf(line, step, x, y)} />
            ))}
            {at !== undefined && here !== undefined && (
              <line className={styles.cursor} x1={x(here)} x2={x(here)} y1={top} y2={y(0)} />
            )}
          </svg>
        </div>
        {groups.map((group) => (
          <button
            key={group.marks[0]?.key}
            type="button"
            className={styles.flag}
            style={{ insetInlineStart: `${Math.min(group.start, width - widthOf(nameOf(group)))}px` }}
            aria-label={
              group.marks.length > 1 ? words.several(nameOf(group), sentencesOf(group)) : group.marks[0]?.words
            }
            onClick={() => setTold(group)}
            onFocus={() => setTold(group)}
            onBlur={() => setTold(undefined)}
            onPointerEnter={() => setTold(group)}
            onPointerLeave={() => setTold(undefined)}
          >
            {nameOf(group)}
          </button>
        ))}
      </div>
      <p className={styles.told} aria-hidden="true">
        {told
          ? sentencesOf(told)
          : at !== undefined && here !== undefined
            ? words.values(words.moment(here), said.join(", "))
            : ""}
      </p>
    </figure>
  );
}
