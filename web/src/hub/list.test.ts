// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  FleetGroupsSchema,
  type FleetRow,
  FleetRowSchema,
  QueryService,
  type WatchQueryResponseSchema,
} from "../gen/leat/fleet/v1/query_pb";
import { countsOf, listSource, windowFor } from "./list.ts";

const row = (ref: string, phase = "HEALTHY"): FleetRow => create(FleetRowSchema, { ref, name: ref, phase });

test("a window begins before what is in sight, and stays while that is well inside", () => {
  const first = windowFor(0, 30, undefined);
  expect(first).toEqual({ offset: 0, size: 150 });
  expect(windowFor(40, 70, first)).toBe(first);
  const next = windowFor(110, 140, first);
  expect(next).not.toBe(first);
  expect(next.offset).toBeLessThanOrEqual(110);
  expect(next.offset + next.size).toBeGreaterThan(140);
});

test("a window is never more than the hub sends", () => {
  for (let first = 0; first < 200_000; first += 997) {
    const { offset, size } = windowFor(first, first + 40, undefined);
    expect(size).toBeLessThanOrEqual(500);
    expect(offset).toBeLessThanOrEqual(first);
    expect(offset + size).toBeGreaterThan(first + 40);
  }
});

test("changes of a stream are put into the window, and what left it is forgotten", async () => {
  const messages: MessageInitShape<typeof WatchQueryResponseSchema>[] = [
    { rows: [row("a"), row("b")], window: ["a", "b"], hasWindow: true, total: 2, hasCounts: true, groups: [] },
    {},
    { rows: [row("b", "FAILED")] },
    { rows: [row("c")], window: ["c", "b"], hasWindow: true, total: 3, hasCounts: true },
    { window: ["c", "b", "a"], hasWindow: true },
  ];
  const transport = createRouterTransport(({ service }) => {
    service(QueryService, {
      queryFleet: () => ({ rows: [row("a")], total: 1 }),
      watchQuery: async function* () {
        yield* messages;
      },
    });
  });
  const source = listSource(createClient(QueryService, transport), { kind: "Service" }, { offset: 0, size: 50 });
  const { signal } = new AbortController();
  const start = await source.load(signal);
  const seen: string[] = [];
  for await (const window of source.follow?.(start, signal) ?? []) {
    seen.push(`${window.rows.map(({ ref, phase }) => `${ref}=${phase[0]}`).join(" ")} of ${window.total}`);
  }
  expect(seen).toEqual([
    "a=H b=H of 2",
    "a=H b=H of 2",
    "a=H b=F of 2",
    "c=H b=F of 3",
    // a left the window, and its row with it: the hub sends the row again when it comes back.
    "c=H b=F of 3",
  ]);
});

test("counts are those of the field", () => {
  const groups = [
    create(FleetGroupsSchema, { field: "reason", groups: [{ value: "X", count: 9 }] }),
    create(FleetGroupsSchema, { field: "phase", groups: [{ value: "FAILED", count: 2 }] }),
  ];
  expect(countsOf(groups, "phase")).toEqual([{ phase: "FAILED", count: 2 }]);
  expect(countsOf(groups, "other")).toEqual([]);
});
