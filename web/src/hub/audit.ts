// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import type { AuditRecord, ListAuditRecordsResponse } from "../gen/leat/fleet/v1/audit_pb";
import type { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import type { Source, Surroundings } from "./live.ts";

/** Question chooses records. An empty field chooses all. */
export interface Question {
  by?: string;
  kind?: string;
  name?: string;
  cluster?: string;
  verb?: string;
  outcome?: string;
  /** Only records of this many milliseconds before now. */
  span?: number;
}

/** Log is the newest records, the newest first. */
export interface Log {
  records: readonly AuditRecord[];
  /** Where older records go on. Empty: there are none. */
  next: string;
  /** Up to which record the hub has looked. */
  after: bigint;
}

export const pageSize = 100;
/** A page holds at most so many records. Who wants to see more narrows the question. */
export const mostRecords = 1000;
const pause = 10_000;
// The hub looks through a bounded number of records for a page, so a page can be empty although another one follows.
const mostEmpty = 10;

type Fleet = Client<typeof FleetService>;

const asked = (question: Question, now: number) => ({
  subject: question.by ? (question.by.includes(":") ? question.by : `user:${question.by}`) : "",
  kind: question.kind ?? "",
  name: question.name ?? "",
  cluster: question.cluster ?? "",
  verb: question.verb ?? "",
  outcome: question.outcome ?? "",
  pageSize,
  ...(question.span && { since: timestampFromMs(now - question.span) }),
});

/** Returns a page of records. An empty token asks for the newest. */
export async function auditPage(fleet: Fleet, question: Question, now: number, token: string, signal?: AbortSignal) {
  let page: ListAuditRecordsResponse;
  let pageToken = token;
  let tries = 0;
  do {
    page = await fleet.listAuditRecords({ ...asked(question, now), pageToken }, signal && { signal });
    pageToken = page.nextPageToken;
  } while (page.records.length === 0 && pageToken !== "" && ++tries < mostEmpty);
  return page;
}

/** Returns the source of the newest records. The hub has no stream of them, so it is asked again every 10 s. */
export function auditSource(fleet: Fleet, question: Question, { now, sleep }: Surroundings): Source<Log> {
  const load = async (signal: AbortSignal): Promise<Log> => {
    const page = await auditPage(fleet, question, now(), "", signal);
    return { records: page.records, next: page.nextPageToken, after: page.records[0]?.sequence ?? 0n };
  };
  return {
    load,
    async *follow(from, signal) {
      let log = from;
      while (!signal.aborted) {
        await sleep(pause, signal);
        if (signal.aborted) return;
        if (log.after === 0n) {
          log = await load(signal);
        } else {
          const { records, after } = await fleet.listAuditRecords(
            { ...asked(question, now()), after: log.after },
            { signal },
          );
          const isFull = log.records.length + records.length > mostRecords;
          log = isFull ? await load(signal) : { ...log, records: [...records.toReversed(), ...log.records], after };
        }
        yield log;
      }
    },
  };
}
