// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Client } from "@connectrpc/connect";
import type { CommitArrival, FleetGroups, FleetRow, QueryService } from "../gen/leat/fleet/v1/query_pb";
import type { Source } from "./live.ts";

/** Query is what a list shows, apart from the window. */
export interface Query {
  kind: string;
  filter?: string;
  project?: string;
  cluster?: string;
  order?: string;
  groupBy?: string[];
  /** The commit whose times of arrival the window has. */
  arrivalOf?: string;
}

/** Window is a part of a list. The browser never holds more. */
export interface Window {
  offset: number;
  rows: readonly FleetRow[];
  total: number;
  groups: readonly FleetGroups[];
  arrival?: CommitArrival | undefined;
}

export interface Range {
  offset: number;
  size: number;
}

const step = 50;
const margin = 75;
const most = 500;

/**
 * Returns the window to ask for when the rows from first to last are in sight, or the present one if they are well
 * inside of it. Windows begin at multiples of a step, so that callers with the same list share them at the hub.
 */
export function windowFor(first: number, last: number, present: Range | undefined): Range {
  if (present && first >= present.offset && last < present.offset + present.size) {
    const isNearStart = first - present.offset < step / 2 && present.offset > 0;
    const isNearEnd = present.offset + present.size - last < step / 2;
    if (!isNearStart && !isNearEnd) return present;
  }
  const offset = Math.max(0, Math.floor((first - margin) / step) * step);
  const size = Math.min(most, Math.ceil((last + margin - offset) / step) * step);
  return { offset, size };
}

/**
 * Returns the source of a window: the window by a call, which is compressed, and then its changes by a stream. With
 * documents, each row carries its object, which costs the hub and the page several times as much.
 */
export function listSource(
  client: Client<typeof QueryService>,
  query: Query,
  range: Range,
  documents = false,
): Source<Window> {
  const message = { ...query, ...range };
  return {
    async load(signal) {
      const { rows, total, groups, arrival } = await client.queryFleet({ query: message, documents }, { signal });
      return { offset: range.offset, rows, total, groups, arrival };
    },
    async *follow(from, signal) {
      let window = from;
      let known = new Map(from.rows.map((row) => [row.ref, row]));
      for await (const change of client.watchQuery({ query: message, documents }, { signal })) {
        for (const row of change.rows) known.set(row.ref, row);
        const refs = change.hasWindow ? change.window : window.rows.map((row) => row.ref);
        const isChanged = change.rows.length > 0 || change.hasWindow || change.hasCounts;
        if (isChanged) {
          const rows = refs.flatMap((ref) => known.get(ref) ?? []);
          // Rows that left the window are forgotten, or a long visit would hold the fleet.
          known = new Map(rows.map((row) => [row.ref, row]));
          const { total, groups, arrival } = change;
          const counts = change.hasCounts ? { total, groups, arrival } : {};
          window = { ...window, rows, ...counts };
        }
        yield window;
      }
    },
  };
}

/** Returns the counts by one field, as phases and numbers. */
export const countsOf = (groups: readonly FleetGroups[], field: string) =>
  (groups.find((group) => group.field === field)?.groups ?? []).map(({ value, count }) => ({ phase: value, count }));
