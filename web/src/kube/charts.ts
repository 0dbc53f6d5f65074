// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { Metric, type MetricSeries } from "../gen/leat/agent/v1/agent_pb";
import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import { type Revision, RevisionOutcome } from "../gen/leat/fleet/v1/resources_pb";
import { failureOf, KnownError } from "../hub/failure.ts";
import type { Hub } from "../hub/hub.ts";
import { polled, type Source } from "../hub/live.ts";
import { permit } from "../hub/permit.ts";
import { ms } from "../hub/time.ts";
import { agentOf, permitAgent } from "./inventory.ts";
import type { Place } from "./names.ts";

// What a service's pods used over time, as the cluster's Prometheus has it. The agent asks it.

export const ranges = [3600, 21600, 86400, 604800] as const;

export type Range = (typeof ranges)[number];

/** Line is one pod. */
export interface Line {
  name: string;
  /** Time and figure, by time. */
  points: readonly (readonly [number, number])[];
  last: number;
  peak: number;
}

export interface Chart {
  /** The largest first. */
  lines: readonly Line[];
  leftOut: number;
  /** What each pod may have, and asks for, if that is the same for all. */
  limit: number | undefined;
  request: number | undefined;
}

/** Mark is a revision that was applied. */
export interface Mark {
  number: string;
  at: number;
  commit: string;
  version: string;
  outcome: number;
}

/** Sync is a time at which somebody asked for a sync. */
export interface Sync {
  key: string;
  at: number;
  by: string;
  /** In their words. */
  reason: string;
}

export interface Charts {
  from: number;
  to: number;
  /** The time between points, in milliseconds. */
  step: number;
  cpu: Chart;
  memory: Chart;
  /** undefined: the person may not list revisions. */
  marks: readonly Mark[] | undefined;
  /** undefined: the person may not read the record of changes. */
  syncs: readonly Sync[] | undefined;
}

export const notConfigured = "METRICS_NOT_CONFIGURED";
export const outdated = "AGENT_OUTDATED";

/** How many lines are drawn. */
const mostLines = 20;
const mostPoints = 500;
/** How many points a chart has. */
const points = 240;

export const stepOf = (range: Range): number => Math.max(15, range / points) * 1000;

function lineOf({ namespace, pod, points }: MetricSeries, namespaces: number): Line | undefined {
  const read: [number, number][] = [];
  for (const { time, value } of points.slice(0, mostPoints)) {
    const at = ms(time);
    const last = read.at(-1);
    if (at !== undefined && Number.isFinite(value) && value >= 0 && (!last || at > last[0])) read.push([at, value]);
  }
  const last = read.at(-1)?.[1];
  if (last === undefined) return undefined;
  const name = namespaces > 1 ? `${namespace}/${pod}` : pod;
  return { name: name.slice(0, 300), points: read, last, peak: Math.max(...read.map(([, value]) => value)) };
}

/** Returns the last figure of all lines, if they agree on it. */
function agreed(all: readonly MetricSeries[]): number | undefined {
  const values = new Set(all.map(({ points }) => points.at(-1)?.value));
  const [value] = values;
  return values.size === 1 && value !== undefined && Number.isFinite(value) && value > 0 ? value : undefined;
}

function marksOf(revisions: readonly Revision[], from: number, to: number): Mark[] {
  const marks: Mark[] = [];
  for (const { number, appliedAt, healthyAt, plannedAt, commits, versions, outcome } of revisions.slice(0, 100)) {
    // An older agent does not report when it applied; a revision that was never applied is no mark.
    const at = ms(appliedAt) ?? ms(healthyAt) ?? (outcome === RevisionOutcome.UNSPECIFIED ? ms(plannedAt) : undefined);
    if (at === undefined || at < from || at > to) continue;
    marks.push({ number: String(number), at, commit: commits[0] ?? "", version: versions[0] ?? "", outcome });
  }
  return marks.sort((a, b) => a.at - b.at);
}

const mostSyncs = 50;
const mostText = 200;

/** Returns undefined for a call that the hub refuses to the person, and fails as other calls did. */
function unlessRefused(thrown: unknown): undefined {
  if (failureOf(thrown).kind !== "refused") throw thrown;
}

/** Returns who asked for a sync of the service, by the record of changes, the latest at most. */
async function loadSyncs(hub: Hub, name: string, from: number, to: number, signal: AbortSignal): Promise<Sync[]> {
  await permit(hub, { cluster: "", verb: "list", resource: "auditrecords" });
  const { records } = await hub
    .call(FleetService)
    .listAuditRecords(
      { kind: "Service", name, verb: "sync", outcome: "OK", since: timestampFromMs(from), pageSize: mostSyncs },
      { signal },
    );
  return records.slice(0, mostSyncs).flatMap(({ id, time, subject, reason }) => {
    const at = ms(time);
    if (at === undefined || at < from || at > to) return [];
    return { key: id, at, by: subject.replace(/^user:/, "").slice(0, mostText), reason: reason.slice(0, mostText) };
  });
}

/** Fails with what only a person can end: an agent that knows no Prometheus, or is too old for the call. */
function explain(thrown: unknown): never {
  const failure = failureOf(thrown);
  const isOld = ConnectError.from(thrown).code === Code.Unimplemented;
  if (!isOld && failure.reason !== notConfigured) throw thrown;
  throw new KnownError({ ...failure, kind: "invalid", reason: isOld ? outdated : notConfigured });
}

/** Returns the source of the charts of a service. Failures that only a person ends stop it. */
export const chartsSource = (hub: Hub, place: Place, name: string, range: Range): Source<Charts> =>
  polled(
    async (signal): Promise<Charts> => {
      await permitAgent(hub, place, "get", "inventory");
      const agent = agentOf(hub, place);
      const step = stepOf(range);
      const to = hub.surroundings.now();
      const from = to - range * 1000;
      const ask = (metric: Metric) =>
        agent
          .queryMetrics(
            {
              service: place.service,
              metric,
              start: timestampFromMs(from),
              end: timestampFromMs(to),
              step: { seconds: BigInt(Math.floor(step / 1000)), nanos: (step % 1000) * 1e6 },
            },
            { signal },
          )
          .catch(explain);
      const chart = async (used: Metric, requested: Metric, limited: Metric): Promise<Chart> => {
        const [{ series, leftOut }, request, limit] = await Promise.all([ask(used), ask(requested), ask(limited)]);
        const namespaces = new Set(series.map(({ namespace }) => namespace)).size;
        const lines = series.slice(0, 1000).flatMap((each) => lineOf(each, namespaces) ?? []);
        return {
          lines: lines.slice(0, mostLines),
          leftOut: Math.max(0, leftOut) + Math.max(0, lines.length - mostLines),
          limit: agreed(limit.series),
          request: agreed(request.series),
        };
      };
      const [cpu, memory, revisions, syncs] = await Promise.all([
        chart(Metric.CPU, Metric.CPU_REQUEST, Metric.CPU_LIMIT),
        chart(Metric.MEMORY, Metric.MEMORY_REQUEST, Metric.MEMORY_LIMIT),
        hub.call(FleetService).listRevisions({ service: name }, { signal }).catch(unlessRefused),
        loadSyncs(hub, name, from, to, signal).catch(unlessRefused),
      ]);
      return { from, to, step, cpu, memory, syncs, marks: revisions && marksOf(revisions.revisions, from, to) };
    },
    60_000,
    hub.surroundings,
  );
