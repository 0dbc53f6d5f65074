// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, number, size } from "./en.ts";
import { metrics } from "./metrics.ts";

// The words of charts. The part that shows them loads them.

const hours = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const days = new Intl.DateTimeFormat("en", { weekday: "short", day: "numeric" });
const moment = new Intl.DateTimeFormat("en", {
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});

export const charts = {
  title: "Over time",
  range: "Time",
  ranges: { 3600: "1 hour", 21600: "6 hours", 86400: "1 day", 604800: "7 days" } as Record<number, string>,
  cpu: "CPU",
  memory: "Memory",
  write: { cpu: metrics.cpu, memory: size },
  cursor: (title: string) => `${title} at a time`,
  hour: (at: number) => hours.format(at),
  day: (at: number) => days.format(at),
  moment: (at: number) => moment.format(at),
  columns: { pod: "Pod", at: "At", last: "Last", peak: "Highest" },
  figures: (n: number) => `Figures of ${count(n, "pod", "pods")}`,
  none: "–",
  limit: (value: string) => `limit of each pod: ${value}`,
  request: (value: string) => `request of each pod: ${value}`,
  values: (time: string, values: string) => (values === "" ? `${time}: no figures` : `${time}: ${values}`),
  of: (pod: string, value: string) => `${pod} ${value}`,
  more: (n: number) => `and ${number(n)} more`,
  several: (label: string, all: string) => `${label}: ${all}`,
  marked: (n: number) => count(n, "mark", "marks"),
  sync: "sync",
  synced: (by: string, time: string, reason: string) => `sync by ${by}, ${time}${reason === "" ? "" : `: ${reason}`}`,
  applied: (number: string, commit: string, time: string, outcome: string) =>
    `Revision ${number}${commit === "" ? "" : ` (${commit})`}, applied ${time}: ${outcome}`,
  marks: "Revisions that were applied in this time",
  noMarks: "No revision was applied in this time.",
  noRevisions: "Revisions are not marked: the hub does not list them for you.",
  leftOut: (shown: number, n: number) =>
    `The ${number(shown)} pods with the largest figures are drawn; ${count(n, "pod is", "pods are")} left out.`,
  every: (seconds: number) => `Read every ${number(seconds)} seconds while you look at it.`,
  empty: "Prometheus has no figures",
  emptyBody:
    "It knows none of this service's pods in this time. Their CPU and memory come from the kubelet of each node: check that Prometheus scrapes it.",
  notSet: "No history yet",
  notSetBody: (cluster: string) =>
    `Charts come from the Prometheus of the cluster. Name it in the document of ${cluster}, as spec.agent.metrics: monitoring/prometheus:9090, and apply that.`,
  outdated: "The agent is too old for charts",
  outdatedBody: "Upgrade the cluster's agent, and they appear here.",
};
