// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Hub } from "../hub/hub.ts";
import { query, readJson, readStream } from "./api.ts";
import type { Line } from "./lines.ts";
import { resourcePath } from "./path.ts";

/** Ended is the container of a pod that ended, or that does not begin, and the end of its log. */
export interface Ended {
  container: string;
  /** Why it ended or waits, in the cluster's word, such as OOMKilled. */
  reason: string;
  exitCode: number | undefined;
  endedAt: number | undefined;
  restarts: number;
  /** Reports whether the log is of the container before the one that runs now. */
  isPrevious: boolean;
  lines: readonly Line[];
}

interface State {
  waiting?: { reason?: string };
  terminated?: { reason?: string; exitCode?: number; finishedAt?: string };
}

interface RawPod {
  spec?: { containers?: { name?: string }[]; initContainers?: { name?: string }[] };
  status?: { initContainerStatuses?: RawContainer[]; containerStatuses?: RawContainer[] };
}

interface RawContainer {
  name?: string;
  ready?: boolean;
  restartCount?: number;
  state?: State;
  lastState?: State;
}

const tail = 30;
const mostBytes = 256 * 1024;
const mostContainers = 100;

/** Returns the container to look at: one that failed, or else one that is not ready. */
function worst(containers: readonly RawContainer[]): RawContainer | undefined {
  const failed = ({ state, lastState }: RawContainer) =>
    (state?.terminated?.exitCode ?? 0) !== 0 || lastState?.terminated !== undefined;
  return (
    containers.find((each) => failed(each) && !each.ready) ??
    containers.find(failed) ??
    containers.find((each) => !each.ready && !each.state?.terminated) ??
    containers[0]
  );
}

/** Returns the end of the log of the container that ended: the previous one if it was started again. */
export async function loadEnded(
  hub: Hub,
  cluster: string,
  namespace: string,
  pod: string,
  signal: AbortSignal,
): Promise<Ended | undefined> {
  const path = resourcePath("v1", namespace, "pods", pod);
  const { status = {} } = await readJson<RawPod>(hub.clusters, cluster, path, signal);
  const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])].slice(0, mostContainers);
  const found = worst(all);
  if (!found?.name) return undefined;
  const { state, lastState, restartCount = 0 } = found;
  const ended = state?.terminated ?? lastState?.terminated;
  const isPrevious = !state?.terminated && lastState?.terminated !== undefined;
  const endedAt = Date.parse(ended?.finishedAt ?? "");
  const lines: Line[] = [];
  const options = { container: found.name, tailLines: tail, limitBytes: mostBytes, previous: isPrevious || undefined };
  // A container that waits for its image has no log, and the API says so as an error.
  if (ended || !state?.waiting) {
    for await (const next of readStream(hub.clusters, cluster, `${path}/log${query(options)}`, 2 * mostBytes, signal)) {
      for (const line of next) lines.push(line);
    }
  }
  return {
    container: found.name.slice(0, 253),
    reason: (ended?.reason ?? state?.waiting?.reason ?? "").slice(0, 300),
    exitCode: ended?.exitCode,
    endedAt: Number.isNaN(endedAt) ? undefined : endedAt,
    restarts: restartCount,
    isPrevious,
    lines: lines.slice(-tail),
  };
}
