// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { hierarchy, tree } from "d3-hierarchy";
import type { Branch } from "../../parts/outline.tsx";
import type { Node } from "./tree.ts";

// Where the graph's nodes are. It is laid out from the left to the right: the service, its objects, and what they own.

export const boxWidth = 208;
export const boxHeight = 40;
const columnWidth = boxWidth + 48;
const rowHeight = boxHeight + 10;
const margin = 12;

/** Item is what the layout places: the service itself, or a row of its outline. */
export interface Item {
  key: string;
  /** undefined: it is the service. */
  branch: Branch<Node> | undefined;
  /** Its place among the rows of the outline, from 0; -1 of the service. */
  index: number;
  children: Item[];
}

/** Placed is a node with the upper left corner of its box, and that of the node above it. */
export interface Placed extends Pick<Item, "key" | "branch" | "index"> {
  x: number;
  y: number;
  from: { x: number; y: number } | undefined;
}

export interface Layout {
  /** Sorted by y, so that those in sight are found without a look at all. */
  nodes: readonly Placed[];
  /** Those of the outline's rows, by their index. */
  rows: readonly Placed[];
  width: number;
  height: number;
}

/** Returns the rows of the outline as a tree again, below the service. */
function itemsOf(branches: readonly Branch<Node>[]): Item {
  const root: Item = { key: "", branch: undefined, index: -1, children: [] };
  const path = [root];
  branches.forEach((branch, index) => {
    const item: Item = { key: branch.key, branch, index, children: [] };
    path.length = branch.level;
    path.at(-1)?.children.push(item);
    path.push(item);
  });
  return root;
}

/** Returns where the rows of an outline are in the graph. */
export function layoutOf(branches: readonly Branch<Node>[]): Layout {
  const root = tree<Item>()
    .nodeSize([rowHeight, columnWidth])
    .separation(() => 1)(hierarchy(itemsOf(branches)));
  let top = Number.POSITIVE_INFINITY;
  let bottom = 0;
  let deepest = 0;
  root.each(({ x, depth }) => {
    top = Math.min(top, x);
    bottom = Math.max(bottom, x);
    deepest = Math.max(deepest, depth);
  });
  // The layout is from the top to the bottom; here x and y change places.
  const corner = (node: { x: number; y: number }) => ({ x: margin + node.y, y: margin + node.x - top });
  const nodes: Placed[] = [];
  const rows: Placed[] = [];
  root.each((node) => {
    const { key, branch, index } = node.data;
    const placed = { key, branch, index, ...corner(node), from: node.parent ? corner(node.parent) : undefined };
    nodes.push(placed);
    if (index >= 0) rows[index] = placed;
  });
  return {
    nodes: nodes.sort((a, b) => a.y - b.y),
    rows,
    width: 2 * margin + deepest * columnWidth + boxWidth,
    height: 2 * margin + bottom - top + boxHeight,
  };
}

/** View is the part of a graph that is in sight, in its own units. */
export interface View {
  left: number;
  top: number;
  width: number;
  height: number;
}

export const isSameView = (a: View, b: View): boolean =>
  a.left === b.left && a.top === b.top && a.width === b.width && a.height === b.height;

/** Returns the first node that is not above a line. */
function firstFrom(nodes: readonly Placed[], y: number): number {
  let [low, high] = [0, nodes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((nodes[middle]?.y ?? 0) < y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the nodes in sight. What is around them is among them, so that a step of scrolling shows no gap. */
export function inSight({ nodes }: Layout, { left, top, width, height }: View): Placed[] {
  const around = 2 * rowHeight;
  const found: Placed[] = [];
  for (let index = firstFrom(nodes, top - around); index < nodes.length; index += 1) {
    const node = nodes[index] as Placed;
    if (node.y > top + height + around) break;
    if (node.x + columnWidth >= left && node.x - columnWidth <= left + width) found.push(node);
  }
  return found;
}

/** Line is what leads from a node to what is below it: one line for many children, or 10,000 would cross the view. */
export interface Stem {
  key: string;
  x: number;
  from: number;
  to: number;
  /** Where the node is whose stem it is. */
  y: number;
}

/** Returns the stem of each node that has something below it. */
export function stemsOf({ nodes }: Layout): Stem[] {
  const stems = new Map<string, Stem>();
  for (const { from, y } of nodes) {
    if (!from) continue;
    const key = `${from.x} ${from.y}`;
    const stem = stems.get(key);
    const middle = y + boxHeight / 2;
    if (stem) {
      stem.from = Math.min(stem.from, middle);
      stem.to = Math.max(stem.to, middle);
    } else {
      const own = from.y + boxHeight / 2;
      stems.set(key, { key, x: from.x + boxWidth, from: Math.min(own, middle), to: Math.max(own, middle), y: own });
    }
  }
  return [...stems.values()];
}
