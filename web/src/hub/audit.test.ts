// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  AuditRecordSchema,
  type ListAuditRecordsRequest,
  type ListAuditRecordsResponse,
} from "../gen/leat/fleet/v1/audit_pb";
import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import { auditPage, auditSource, mostRecords } from "./audit.ts";
import type { Surroundings } from "./live.ts";

type Answer = Partial<Omit<ListAuditRecordsResponse, "$typeName">>;

/** Returns a client of a hub that gives these answers, one after the other, and what it was asked. */
function hubOf(...answers: Answer[]) {
  const asked: ListAuditRecordsRequest[] = [];
  const transport = createRouterTransport(({ service }) =>
    service(FleetService, {
      listAuditRecords(request) {
        asked.push(request);
        return answers.shift() ?? {};
      },
    }),
  );
  return { fleet: createClient(FleetService, transport), asked };
}

const record = (sequence: number) => create(AuditRecordSchema, { sequence: BigInt(sequence) });
const records = (from: number, count: number) => Array.from({ length: count }, (_, index) => record(from - index));
const numbers = (log: { records: readonly { sequence: bigint }[] } | undefined) =>
  log?.records.map(({ sequence }) => Number(sequence));
const surroundings = { now: () => 86_400_000, sleep: async () => {} } as unknown as Surroundings;

test("a question names its person as the hub does, and a span as a time", async () => {
  const { fleet, asked } = hubOf({ records: [record(1)] }, { records: [record(1)] });
  await auditPage(fleet, { by: "ada", verb: "pause", span: 3_600_000 }, 86_400_000, "");
  await auditPage(fleet, { by: "service:distributor" }, 0, "older");
  expect(asked[0]).toMatchObject({ subject: "user:ada", verb: "pause", pageToken: "" });
  expect(asked[0]?.since && timestampMs(asked[0].since)).toBe(82_800_000);
  expect(asked[1]).toMatchObject({ subject: "service:distributor", pageToken: "older" });
  expect(asked[1]?.since).toBeUndefined();
});

test("an empty page with another one behind it is passed over, but not for ever", async () => {
  const { fleet, asked } = hubOf({ nextPageToken: "a" }, { nextPageToken: "b" }, { records: [record(7)] });
  expect(numbers(await auditPage(fleet, {}, 0, ""))).toEqual([7]);
  expect(asked.map(({ pageToken }) => pageToken)).toEqual(["", "a", "b"]);
  const endless = hubOf(...Array.from({ length: 50 }, () => ({ nextPageToken: "more" })));
  expect((await auditPage(endless.fleet, {}, 0, "")).nextPageToken).toBe("more");
  expect(endless.asked.length).toBe(10);
});

test("new records come on top, and a log that grows too long begins again", async () => {
  const { fleet, asked } = hubOf(
    { records: records(20, 2), nextPageToken: "older" },
    { records: [record(21), record(23)], after: 25n },
    { after: 30n },
    { records: records(2000, mostRecords), after: 2000n },
    { records: records(2000, 100), nextPageToken: "older still" },
  );
  const source = auditSource(fleet, {}, surroundings);
  const ended = new AbortController();
  const first = await source.load(ended.signal);
  const next = source.follow?.(first, ended.signal)[Symbol.asyncIterator]();
  const seen = async () => (await next?.next())?.value;
  expect(numbers(await seen())).toEqual([23, 21, 20, 19]);
  expect(await seen()).toMatchObject({ after: 30n, next: "older" });
  expect(await seen()).toMatchObject({ records: { length: 100 }, next: "older still" });
  expect(asked.map(({ after }) => Number(after))).toEqual([0, 20, 25, 30, 0]);
  ended.abort();
  expect((await next?.next())?.done).toBe(true);
});

test("a log without records asks for all, not for what comes after none", async () => {
  const { fleet, asked } = hubOf({}, { records: [record(3)] });
  const source = auditSource(fleet, {}, surroundings);
  const signal = new AbortController().signal;
  const next = source.follow?.(await source.load(signal), signal)[Symbol.asyncIterator]();
  expect(numbers((await next?.next())?.value)).toEqual([3]);
  expect(asked[1]?.after).toBe(0n);
});
