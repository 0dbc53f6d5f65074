// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Where the cells of a map are. It is computed from numbers alone, so that the page, the pointer and the keyboard agree.

/** Cell is a cluster of the map: the little of its row that the map needs. */
export interface Cell {
  ref: string;
  phase: string;
  group: string;
}

/** Group is the cells with one value of a label. */
export interface Group {
  title: string;
  cells: readonly Cell[];
}

/** Line is a row of cells on the screen. */
interface Line {
  y: number;
  /** The index of its first cell. */
  start: number;
  count: number;
}

export interface Layout {
  /** All cells, in the order of the groups. */
  cells: readonly Cell[];
  lines: readonly Line[];
  headings: readonly { title: string; count: number; y: number }[];
  /** The distance from one cell to the next. */
  pitch: number;
  /** The edge of a cell. */
  edge: number;
  height: number;
}

export const headingHeight = 28;
const groupGap = 8;
const mostGroups = 60;

/** Returns the distance between cells: as large as helps the eye, and at least what a pointer can hit with care. */
export const pitchFor = (count: number): number => (count <= 300 ? 24 : count <= 2000 ? 16 : 12);

/**
 * Returns the cells in groups, the largest first. Groups beyond a bound are one, because a label such as a host name has
 * as many values as there are clusters.
 */
export function groupsOf(cells: readonly Cell[], others: string): Group[] {
  const found = new Map<string, Cell[]>();
  for (const cell of cells) {
    const group = found.get(cell.group);
    if (group) group.push(cell);
    else found.set(cell.group, [cell]);
  }
  const groups = [...found]
    .map(([title, cells]) => ({ title, cells }))
    .sort((a, b) => b.cells.length - a.cells.length || (a.title < b.title ? -1 : 1));
  if (groups.length <= mostGroups) return groups;
  const rest = groups.splice(mostGroups - 1);
  return [...groups, { title: others, cells: rest.flatMap((group) => group.cells) }];
}

/** Returns where the cells of groups are on a map of the width. One group has no heading. */
export function layoutOf(groups: readonly Group[], width: number): Layout {
  const cells = groups.flatMap((group) => group.cells);
  const pitch = pitchFor(cells.length);
  const columns = Math.max(1, Math.floor(width / pitch));
  const lines: Line[] = [];
  const headings: Layout["headings"][number][] = [];
  let y = 0;
  let index = 0;
  for (const { title, cells } of groups) {
    if (groups.length > 1) {
      headings.push({ title, count: cells.length, y });
      y += headingHeight;
    }
    for (let at = 0; at < cells.length; at += columns) {
      const count = Math.min(columns, cells.length - at);
      lines.push({ y, start: index, count });
      index += count;
      y += pitch;
    }
    y += groupGap;
  }
  return { cells, lines, headings, pitch, edge: pitch - 2, height: Math.max(0, y - groupGap) };
}

/** Returns the place in lines of the line that holds a cell. */
function lineOf({ lines }: Layout, index: number): number {
  let low = 0;
  let high = lines.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((lines[middle]?.start ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Returns the corner of a cell. */
export function placeOf(layout: Layout, index: number): { x: number; y: number } {
  const line = layout.lines[lineOf(layout, index)];
  return line ? { x: (index - line.start) * layout.pitch, y: line.y } : { x: 0, y: 0 };
}

/** Returns the cell below a point, or undefined. */
export function cellAt(layout: Layout, x: number, y: number): number | undefined {
  const column = Math.floor(x / layout.pitch);
  const line = layout.lines.find((each) => y >= each.y && y < each.y + layout.pitch);
  return line && column >= 0 && column < line.count ? line.start + column : undefined;
}

const page = 10;

/** Returns the cell to which a key leads from another one, or undefined for a key that leads nowhere. */
export function moved(layout: Layout, index: number, key: string): number | undefined {
  const last = layout.cells.length - 1;
  const vertically = (by: number) => {
    const from = lineOf(layout, index);
    const to = layout.lines[Math.max(0, Math.min(layout.lines.length - 1, from + by))];
    const column = index - (layout.lines[from]?.start ?? 0);
    return to ? to.start + Math.min(column, to.count - 1) : index;
  };
  switch (key) {
    case "ArrowRight":
      return Math.min(last, index + 1);
    case "ArrowLeft":
      return Math.max(0, index - 1);
    case "ArrowDown":
      return vertically(1);
    case "ArrowUp":
      return vertically(-1);
    case "PageDown":
      return vertically(page);
    case "PageUp":
      return vertically(-page);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return undefined;
  }
}
