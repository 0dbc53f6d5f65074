// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, number } from "./en.ts";

// The names and values of facts of objects. They are not a part of the catalog that every page loads.

export const condition = {
  synced: "Synced",
  syncedYes: "Everything desired is applied",
  syncedNo: "Some of what is desired is not applied yet",
  sync: "Sync request",
  syncWaits: "Its agent has not carried it out yet",
  paused: "Paused",
  pausedYes: "Its owner has paused it",
  pausedNo: "It follows its sources",
  drift: "Drift",
  driftNone: "None reported",
  driftSome: (n: number) => `${count(n, "object differs", "objects differ")}`,
  hold: "Held",
  held: (by: string) => `Held at other content by ${by}`,
  rollout: "Rollout",
  heldUntil: (policy: string) => `Held by ${policy} until its rollout admits the service`,
  derivedFrom: "Derived from",
  pinned: (revision: bigint, by: string) => `Pinned to revision ${revision} by ${by}`,
  dryRun: "Dry run",
  dryRunYes: "It reports changes and makes none",
  applied: "Last applied",
  never: "Never",
  objects: "Objects",
  objectsOf: (healthy: number, total: number) => `${number(healthy)} of ${number(total)} healthy`,
  agent: "Agent",
  agentOf: (version: string, skew?: { newer: boolean }) =>
    skew ? `${version}, too ${skew.newer ? "new" : "old"} for the hub` : version,
  kubernetes: "Kubernetes",
  nodes: "Nodes",
  nodesOf: (ready: number, total: number) => `${number(ready)} of ${number(total)} ready`,
  lastSeen: "Last seen",
  labels: "Labels",
  fresh: "Confirmed fresh",
  moved: "Last change",
  nextPoll: "Next poll",
  nextPollNone: "None is planned",
  pollInterval: "Polled every",
  failures: "Failed fetches in a row",
  defaultBranch: "Default branch",
  refs: "Branches and tags",
  size: "Size of the mirror",
  removals: "Removals",
  removalsHeld: "Held since the hub was restored from a backup",
  removalsFree: "Not held",
  services: "Services",
};
