// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useNavigate } from "@tanstack/react-router";
import {
  type PointerEvent,
  use,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { useAnswer } from "../../../hub/answer.ts";
import { type Hub, useHub } from "../../../hub/hub.ts";
import type { Window } from "../../../hub/list.ts";
import { classes } from "../../../parts/classes.ts";
import { now, subscribeToClock } from "../../../parts/clock.ts";
import { Stale } from "../../../parts/phase.tsx";
import { ErrorState, Notice, Skeleton } from "../../../parts/states.tsx";
import { delivery } from "../../../text/delivery.ts";
import { text } from "../../../text/en.ts";
import { draw, type Inks, shapeOf } from "./draw.ts";
import { type Cell, cellAt, groupsOf, headingHeight, type Layout, layoutOf, moved, placeOf } from "./layout.ts";
import styles from "./map.module.css";

const words = delivery.map;

const windowSize = 500;
/** The most cells of a map. */
const most = 10_000;
const mostKeys = 30;
/** How many pixels the canvas has at most, because browsers refuse larger ones. */
const mostPixels = 16_000_000;
/** The least time between two readings of a fleet that changes, in milliseconds. */
const pause = 15_000;
/** After how long the map is read again in any case: two clusters may change places, and no count does. */
const longest = 60_000;

interface Read {
  cells: readonly (Omit<Cell, "group"> & { labels: Readonly<Record<string, string>> })[];
  total: number;
}

/** Reads the clusters of a filter in windows, one after the other. A map of them is bounded, as a list's window is. */
async function readCells(hub: Hub, filter: string, signal: AbortSignal): Promise<Read> {
  const found = new Map<string, Read["cells"][number]>();
  let total = 0;
  for (let offset = 0; offset < most; offset += windowSize) {
    const query = { kind: "Cluster", filter, order: "name", offset, size: windowSize };
    const answer = await hub.query.queryFleet({ query }, { signal });
    total = answer.total;
    // A cluster that comes or goes meanwhile moves the others, so one can be in two windows.
    for (const { ref, phase, labels } of answer.rows) found.set(ref, { ref, phase, labels });
    if (answer.rows.length === 0 || offset + windowSize >= total) break;
  }
  return { cells: [...found.values()].slice(0, most), total };
}

/** Returns the keys of the labels that most clusters have. */
function keysOf(cells: Read["cells"]): string[] {
  const counts = new Map<string, number>();
  for (const { labels } of cells) for (const key of Object.keys(labels)) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts]
    .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    .slice(0, mostKeys)
    .map(([key]) => key);
}

/** Returns a text that changes with the counts of the fleet, but not more often than the map is to be read. */
function useVersion(counts: string): string {
  const at = useSyncExternalStore(subscribeToClock, now);
  const [held, setHeld] = useState({ at, counts });
  if (at - held.at >= longest || (counts !== held.counts && at - held.at >= pause)) setHeld({ at, counts });
  return `${held.at} ${held.counts}`;
}

/**
 * ClusterMap draws each cluster of a filter as a cell, with a colour and a shape for its phase. The list below it has the
 * same in words. Its one stream, which the window is of, shows when to read the map again.
 */
export function ClusterMap({
  filter,
  window,
  by,
  onBy,
}: {
  filter: string;
  window: Window;
  by: string;
  onBy: (by: string) => void;
}) {
  const hub = useHub();
  const id = useId();
  const counts = JSON.stringify([
    window.total,
    window.groups.map(({ groups }) => groups.map(({ value, count }) => [value, count])),
  ]);
  const { value, failure, link, retry } = useAnswer(
    `map ${filter}`,
    useVersion(counts),
    (signal) => readCells(hub, filter, signal),
    hub.surroundings,
  );
  const keys = useMemo(() => keysOf(value?.cells ?? []), [value]);
  const groups = useMemo(
    () =>
      groupsOf(
        (value?.cells ?? []).map(({ ref, phase, labels }) => ({
          ref,
          phase,
          group: by === "" ? "" : (labels[by] ?? words.without(by)),
        })),
        words.others,
      ),
    [value, by],
  );
  if (!value) {
    return failure ? (
      <ErrorState failure={failure} onRetry={retry} command="leat get clusters" />
    ) : (
      <Skeleton lines={6} label={words.loading} />
    );
  }
  if (value.cells.length === 0) return null;
  return (
    <section className={styles.map} aria-label={words.title}>
      <div className={styles.bar}>
        <label htmlFor={id}>{words.groupBy}</label>
        <select id={id} className={styles.select} value={by} onChange={(event) => onBy(event.target.value)}>
          <option value="">{words.noGroup}</option>
          {(by === "" || keys.includes(by) ? keys : [by, ...keys]).map((key) => (
            <option key={key} value={key}>
              {key}
            </option>
          ))}
        </select>
        <ul className={styles.legend}>
          {(["CONNECTED", "DISCONNECTED", "NOT_JOINED"] as const).map((phase) => (
            <li key={phase}>
              <span className={classes(styles.swatch, styles[shapeOf(phase).shape])} aria-hidden="true" />
              {text.phase[phase]}
            </li>
          ))}
        </ul>
      </div>
      {link === "stopped" && failure && <ErrorState failure={failure} onRetry={retry} />}
      {value.total > value.cells.length && (
        <Notice tone="idle" icon="info" title={delivery.cut(value.cells.length, value.total)} />
      )}
      <Cells groups={groups} isOld={link === "reconnecting"} />
    </section>
  );
}

/** Follows the width of an element. */
function useWidth(element: HTMLElement | null): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

const schemes = ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-contrast: more)"];

/** Returns a number that changes with the colours of the page. */
function useColours(): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const changed = () => setCount((n) => n + 1);
    const observer = new MutationObserver(changed);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const queries = schemes.map((scheme) => matchMedia(scheme));
    for (const query of queries) query.addEventListener("change", changed);
    return () => {
      observer.disconnect();
      for (const query of queries) query.removeEventListener("change", changed);
    };
  }, []);
  return count;
}

/** Reads the colours from an element that has them, because a canvas knows no custom properties. */
function inksOf(probe: HTMLElement): Inks {
  const [ok, bad, idle, paper] = [...probe.children].map((child) => getComputedStyle(child).color);
  return { ok: ok ?? "", bad: bad ?? "", idle: idle ?? "", paper: paper ?? "" };
}

const say = (cell: Cell, isStale: boolean): string => {
  const word = text.phase[cell.phase as keyof typeof text.phase] ?? text.phase.UNKNOWN;
  return words.cell(cell.ref, isStale ? text.wasPhase(word) : word, cell.group);
};

function Cells({ groups, isOld }: { groups: ReturnType<typeof groupsOf>; isOld: boolean }) {
  const navigate = useNavigate();
  const isStale = use(Stale) || isOld;
  const [host, setHost] = useState<HTMLDivElement | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  const cursor = useRef<HTMLButtonElement>(null);
  const [active, setActive] = useState("");
  const [pointed, setPointed] = useState<number>();
  const [isFocused, setFocused] = useState(false);
  const width = useWidth(host);
  const colours = useColours();
  const layout: Layout = useMemo(() => layoutOf(groups, width), [groups, width]);
  // The cursor stays on its cluster while others come and go.
  const found = layout.cells.findIndex(({ ref }) => ref === active);
  const index = Math.max(0, found);
  const cell = layout.cells[index];
  const open = (ref: string) => void navigate({ to: "/clusters/$", params: { _splat: ref } });

  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours are read from the page when they change
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context || !probe.current || width === 0) return;
    const area = Math.max(1, width * layout.height);
    const scale = Math.min(devicePixelRatio, Math.sqrt(mostPixels / area));
    canvas.current.width = Math.floor(width * scale);
    canvas.current.height = Math.floor(layout.height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    draw(context, layout, inksOf(probe.current), isStale);
  }, [layout, width, isStale, colours]);

  const at = (event: PointerEvent) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    return cellAt(layout, event.clientX - left, event.clientY - top);
  };
  const place = placeOf(layout, index);
  const tip = pointed === undefined ? undefined : layout.cells[pointed];
  const tipPlace = pointed === undefined ? undefined : placeOf(layout, pointed);
  return (
    <div className={styles.scroller}>
      <div ref={setHost} className={styles.host} style={{ blockSize: layout.height }}>
        <span ref={probe} hidden>
          <span className={styles.ok} />
          <span className={styles.bad} />
          <span className={styles.idle} />
          <span className={styles.paper} />
        </span>
        {/* The list below has the same in words, and the cursor says each cell. */}
        <canvas
          ref={canvas}
          className={styles.canvas}
          data-pointed={pointed !== undefined || undefined}
          onPointerMove={(event) => setPointed(at(event))}
          onPointerLeave={() => setPointed(undefined)}
          onPointerUp={(event) => {
            const hit = layout.cells[at(event) ?? -1];
            if (hit && event.button === 0) open(hit.ref);
          }}
        />
        {layout.headings.map(({ title, count, y }) => (
          <h3 key={title} className={styles.heading} style={{ insetBlockStart: y, blockSize: headingHeight }}>
            <span>{title}</span> <data value={count}>{text.number(count)}</data>
          </h3>
        ))}
        {cell && (
          <button
            ref={cursor}
            type="button"
            className={styles.cursor}
            style={{
              insetBlockStart: place.y,
              insetInlineStart: place.x,
              inlineSize: layout.pitch,
              blockSize: layout.pitch,
            }}
            aria-label={say(cell, isStale)}
            aria-describedby="map-keys"
            onFocus={() => setFocused(true)}
            onBlur={() => setFocused(false)}
            onPointerEnter={() => setPointed(index)}
            onPointerLeave={() => setPointed(undefined)}
            onClick={() => open(cell.ref)}
            onKeyDown={(event) => {
              if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
              const to = moved(layout, index, event.key);
              const next = layout.cells[to ?? -1];
              if (!next) return;
              event.preventDefault();
              setActive(next.ref);
              requestAnimationFrame(() => cursor.current?.scrollIntoView({ block: "nearest", inline: "nearest" }));
            }}
          />
        )}
        <span id="map-keys" className="unseen">
          {words.keys}
        </span>
        {tip && tipPlace && (
          <div
            className={styles.tip}
            aria-hidden="true"
            style={{
              insetBlockStart: tipPlace.y + layout.pitch + 4,
              ...(tipPlace.x > width / 2
                ? { insetInlineEnd: width - tipPlace.x - layout.pitch }
                : { insetInlineStart: tipPlace.x }),
            }}
          >
            {say(tip, isStale)}
          </div>
        )}
      </div>
      <div className="unseen" role="status" aria-live="polite">
        {isFocused && cell ? say(cell, isStale) : ""}
      </div>
    </div>
  );
}
