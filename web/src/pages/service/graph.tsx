// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type KeyboardEvent, use, useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import { healthLook } from "../../fleet/health.tsx";
import { Button } from "../../parts/button.tsx";
import { classes } from "../../parts/classes.ts";
import { Icon } from "../../parts/icon.tsx";
import type { Branch } from "../../parts/outline.tsx";
import { Stale } from "../../parts/phase.tsx";
import { act } from "../../text/act.ts";
import { text } from "../../text/en.ts";
import styles from "./graph.module.css";
import {
  boxHeight,
  boxWidth,
  inSight,
  isSameView,
  layoutOf,
  type Placed,
  type Stem,
  stemsOf,
  type View,
} from "./layout.ts";
import { noteOf } from "./note.ts";
import { healthOf, type Node } from "./tree.ts";

const words = act.graph;
const zooms = [0.25, 0.5, 0.75, 1, 1.5, 2];
const usual = zooms.indexOf(1);
const longestWord = 200;

/** Returns the two lines of a box: what it is, and its name. */
function wordsIn(node: Node): [kind: string, name: string] {
  if (node.is === "note") return ["", noteOf(node)];
  if (node.is === "group") {
    const total = node.counts.reduce((sum, { count }) => sum + count, 0);
    return [
      node.counts.map(({ health, count }) => `${text.number(count)} ${healthWord(health)}`).join(", "),
      words.group(node.kind, total),
    ];
  }
  const { kind, name } = node.is === "owned" ? node.owned : node.ref;
  return [kind, name.slice(0, longestWord)];
}

const healthWord = (health: number) => (text.health[health] ?? text.phase.UNKNOWN).toLowerCase();

/** Returns the word for how a node is. A pod has that of kubectl. */
function stateOf(node: Node): string {
  if (node.is === "note") return "";
  return (node.is === "owned" && node.owned.word) || (text.health[healthOf(node)] ?? text.phase.UNKNOWN);
}

export interface GraphProps {
  name: string;
  branches: readonly Branch<Node>[];
  /** The row that is in sight at first, and first in the order of tabs. */
  start: number;
  onFold: (branch: Branch<Node>, isOpen: boolean) => void;
  onOpen: (node: Node) => void;
}

/**
 * Graph draws the rows of the outline as a tree. Only what is in sight is in the page, and the node that has the focus.
 * Its keys are those of the outline, and + and - change its size. It scrolls as every other part does.
 */
export function Graph({ name, branches, start, onFold, onOpen }: GraphProps) {
  const help = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const [zoom, setZoom] = useState(usual);
  const [current, setCurrent] = useState(start);
  const [view, setView] = useState<View>({ left: 0, top: 0, width: 1280, height: 800 });
  const layout = useMemo(() => layoutOf(branches), [branches]);
  const stems = useMemo(() => stemsOf(layout), [layout]);
  const scale = zooms[zoom] ?? 1;
  const active = Math.min(current, branches.length - 1);

  const look = () => {
    const at = scroller.current;
    if (!at) return;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = at;
    const now = {
      left: scrollLeft / scale,
      top: scrollTop / scale,
      width: clientWidth / scale,
      height: clientHeight / scale,
    };
    // An observer tells of the size once even if it is as before.
    setView((was) => (isSameView(was, now) ? was : now));
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is in sight depends on the scale and the size
  useLayoutEffect(() => {
    const at = scroller.current;
    if (!at) return;
    look();
    const observer = new ResizeObserver(look);
    observer.observe(at);
    return () => observer.disconnect();
  }, [scale, layout]);

  /** Scrolls so far that a node is in sight, and not further. */
  const reveal = (index: number) => {
    const at = scroller.current;
    const node = layout.rows[index];
    if (!at || !node) return;
    const along = (from: number, size: number, begin: number, length: number) =>
      from < begin ? from : from + size > begin + length ? from + size - length : begin;
    const gap = 16;
    at.scrollTo(
      along(node.x * scale - gap, boxWidth * scale + 2 * gap, at.scrollLeft, at.clientWidth),
      along(node.y * scale - gap, boxHeight * scale + 2 * gap, at.scrollTop, at.clientHeight),
    );
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the first place is the graph's own choice
  useLayoutEffect(() => reveal(start), []);

  const focus = (index: number) => {
    const next = Math.max(0, Math.min(branches.length - 1, index));
    setCurrent(next);
    reveal(next);
    // The node may appear with the next render only.
    requestAnimationFrame(() => scroller.current?.querySelector<SVGElement>(`[data-index="${next}"]`)?.focus());
  };
  const choose = (branch: Branch<Node>) => {
    if (branch.isOpen !== undefined) onFold(branch, !branch.isOpen);
    else onOpen(branch.item);
  };
  const resize = (next: number) => setZoom(Math.max(0, Math.min(zooms.length - 1, next)));

  const onKeyDown = (event: KeyboardEvent) => {
    const branch = branches[active];
    if (!branch || event.altKey || event.metaKey || event.ctrlKey) return;
    const isRtl = getComputedStyle(event.currentTarget).direction === "rtl";
    const inward = isRtl ? "ArrowLeft" : "ArrowRight";
    const outward = isRtl ? "ArrowRight" : "ArrowLeft";
    const { key } = event;
    if (key === "+" || key === "=") resize(zoom + 1);
    else if (key === "-") resize(zoom - 1);
    else if (key === "0") resize(usual);
    else if (key === "ArrowDown") focus(active + 1);
    else if (key === "ArrowUp") focus(active - 1);
    else if (key === "Home") focus(0);
    else if (key === "End") focus(branches.length - 1);
    else if (key === "Enter" || key === " ") choose(branch);
    else if (key === inward && branch.isOpen === false) onFold(branch, true);
    else if (key === inward && branch.isOpen) focus(active + 1);
    else if (key === outward && branch.isOpen) onFold(branch, false);
    else if (key === outward) {
      const parent = branches.slice(0, active).findLastIndex(({ level }) => level < branch.level);
      if (parent >= 0) focus(parent);
    } else return;
    event.preventDefault();
  };

  const shown = inSight(layout, view);
  const held = layout.rows[active];
  if (held && !shown.includes(held)) shown.push(held);
  // A screen reader reads them in the order of the outline.
  shown.sort((a, b) => a.index - b.index);
  return (
    <div>
      <div className={styles.tools}>
        <Button refused={zoom === 0 ? words.smallest : undefined} onClick={() => resize(zoom - 1)}>
          {words.smaller}
        </Button>
        <Button refused={zoom === zooms.length - 1 ? words.largest : undefined} onClick={() => resize(zoom + 1)}>
          {words.larger}
        </Button>
        <Button onClick={() => resize(usual)}>{words.usual}</Button>
        <span className={styles.quiet}>{words.sizeOf(100 * scale)}</span>
        <p id={help} className={styles.quiet}>
          {words.help}
        </p>
      </div>
      <div
        ref={scroller}
        className={styles.scroller}
        style={{ blockSize: `min(max(20rem, 70vh), ${Math.ceil(layout.height * scale) + 16}px)` }}
        onScroll={look}
      >
        <svg
          // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: HTML has no element that draws lines
          role="tree"
          aria-label={words.label(name)}
          aria-describedby={help}
          width={layout.width * scale}
          height={layout.height * scale}
          viewBox={`0 0 ${layout.width} ${layout.height}`}
          onKeyDown={onKeyDown}
        >
          <Lines shown={shown} stems={stems} view={view} />
          {shown.map((node) =>
            node.branch ? (
              <Box
                key={node.key}
                node={node}
                branch={node.branch}
                isCurrent={node.index === active}
                onFocus={() => setCurrent(node.index)}
                onChoose={choose}
              />
            ) : (
              <g key="service" transform={`translate(${node.x} ${node.y})`}>
                <rect className={classes(styles.box, styles.service)} width={boxWidth} height={boxHeight} rx={6} />
                <Line x={12} y={25} width={boxWidth - 24} className={styles.name}>
                  {name.slice(0, longestWord)}
                </Line>
              </g>
            ),
          )}
        </svg>
      </div>
    </div>
  );
}

/** Lines are from each box in sight to what is above it, and the stems that pass by. */
function Lines({ shown, stems, view }: { shown: readonly Placed[]; stems: readonly Stem[]; view: View }) {
  const half = 24;
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a group of lines takes no focus
    <g className={styles.lines} aria-hidden="true">
      {shown.map(({ key, x, y, from }) => from && <path key={key} d={`M${x - half} ${y + boxHeight / 2}h${half}`} />)}
      {stems
        .filter(({ from, to }) => to >= view.top && from <= view.top + view.height)
        .map(({ key, x, y, from, to }) => (
          <path key={key} d={`M${x} ${y}h${half}M${x + half} ${from}V${to}`} />
        ))}
    </g>
  );
}

/** Line is a text that is cut off where its box ends. The title of the box has all of it. */
function Line(props: { x: number; y: number; width: number; className: string | undefined; children: string }) {
  const { x, y, width, className, children } = props;
  return (
    <foreignObject x={x} y={y - 14} width={width} height={20}>
      <div className={classes(styles.text, className)} title={children}>
        {children}
      </div>
    </foreignObject>
  );
}

function Box({
  node: { x, y, index },
  branch,
  isCurrent,
  onFocus,
  onChoose,
}: {
  node: Placed;
  branch: Branch<Node>;
  isCurrent: boolean;
  onFocus: () => void;
  onChoose: (branch: Branch<Node>) => void;
}) {
  const isOld = use(Stale);
  const { item, level, position, size, isOpen } = branch;
  const [kind, title] = wordsIn(item);
  const state = isOld && item.is !== "note" ? text.wasPhase(stateOf(item)) : stateOf(item);
  const { tone, icon } = healthLook(healthOf(item));
  const look = item.is === "note" ? undefined : { tone: isOld ? "idle" : tone, icon };
  const first = item.is === "object" || item.is === "owned" ? `${kind} · ${state}` : kind;
  const label = `${first} ${title}`.trim();
  return (
    <g
      role="treeitem"
      aria-level={level}
      aria-posinset={position}
      aria-setsize={size}
      aria-expanded={isOpen}
      aria-selected={false}
      tabIndex={isCurrent ? 0 : -1}
      data-index={index}
      className={styles.node}
      transform={`translate(${x} ${y})`}
      onFocus={onFocus}
      onClick={() => onChoose(branch)}
    >
      <title>{label}</title>
      <rect
        className={classes(styles.box, look && styles[look.tone])}
        width={boxWidth}
        height={boxHeight}
        rx={6}
        strokeDasharray={isOpen === false ? "4 3" : undefined}
      />
      {look && (
        <g transform="translate(10 12)" className={classes(styles.icon, styles[look.tone])}>
          <Icon name={look.icon} />
        </g>
      )}
      <Line x={34} y={17} width={boxWidth - 44} className={styles.kind}>
        {first}
      </Line>
      <Line x={34} y={33} width={boxWidth - 44} className={styles.name}>
        {title}
      </Line>
    </g>
  );
}
