// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, number, size } from "./en.ts";

// The words of CPU and memory. The parts that show them load them.

const cores = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 0 });

const cpu = (n: number) => (n < 1 ? `${number(Math.round(n * 1000))} m` : cores.format(n));

const bounds = { limit: "limit", request: "request", allocatable: "allocatable" };

export const metrics = {
  tab: "Metrics",
  nodes: "CPU and memory of nodes",
  pods: "CPU and memory of pods",
  showNodes: "Show CPU and memory of nodes",
  hideNodes: "Hide CPU and memory of nodes",
  columns: { node: "Node", pod: "Pod", cpu: "CPU", memory: "Memory" },
  cpu,
  memory: size,
  share: (of: number) => percent.format(of),
  of: (used: string, of: string, bound: keyof typeof bounds) => `${used} of ${of} (${bounds[bound]})`,
  unbounded: (used: string) => `${used}, no limit and no request`,
  every: "Read every 15 seconds.",
  without: (n: number, noun: "pod" | "node") =>
    `${count(n, noun, `${noun}s`)} without figures: new ones have none for a minute.`,
  hasMore: (n: number) => `Only the ${number(n)} that use most of theirs are shown.`,
  hasMoreNodes: (n: number) => `Only the first ${number(n)} nodes are shown.`,
  none: "No figures yet",
  noneBody: "The cluster has no figures of these yet. New ones have some after a minute.",
  noApi: "This cluster has no metrics-server",
  noApiBody:
    "CPU and memory come from the API metrics.k8s.io, which no program in the cluster answers. Install metrics-server there, for example as a service of Leat, and they appear here.",
};
