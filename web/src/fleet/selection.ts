// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { FleetRow } from "../gen/leat/fleet/v1/query_pb";

/** Picked is what is kept of a row that somebody has selected. */
export type Picked = Pick<FleetRow, "ref" | "can" | "paused">;

/** Selection is rows of a list, or all that its filter selects but some. The browser never holds the latter. */
export interface Selection {
  isAll: boolean;
  /** The rows that are selected; with isAll, those that are not. */
  rows: ReadonlyMap<string, Picked>;
  /** With isAll, how many the filter selected when the person saw it. */
  seen: number;
}

export const noSelection: Selection = { isAll: false, rows: new Map(), seen: 0 };

export const allOf = (seen: number): Selection => ({ isAll: true, rows: new Map(), seen });

export const isSelected = ({ isAll, rows }: Selection, ref: string): boolean => isAll !== rows.has(ref);

export const sizeOf = ({ isAll, rows, seen }: Selection): number => (isAll ? Math.max(0, seen - rows.size) : rows.size);

/** Returns the selection with some rows selected, or not. */
export function withRows(selection: Selection, picked: readonly Picked[], isOn: boolean): Selection {
  const rows = new Map(selection.rows);
  for (const { ref, can, paused } of picked) {
    if (isOn !== selection.isAll) rows.set(ref, { ref, can, paused });
    else rows.delete(ref);
  }
  const next = { ...selection, rows };
  return sizeOf(next) === 0 ? noSelection : next;
}
