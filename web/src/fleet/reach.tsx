// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Failure } from "../hub/failure.ts";
import { originOf } from "../kube/api.ts";
import { Age } from "../parts/age.tsx";
import { Button } from "../parts/button.tsx";
import { Command } from "../parts/command.tsx";
import type { IconName } from "../parts/icon.tsx";
import { Empty, Notice } from "../parts/states.tsx";
import { text } from "../text/en.ts";
import { understand } from "../text/understand.ts";
import { shellQuote } from "./refs.ts";

/** Returns what to call a failure of a request to a cluster, and who can change that. */
export function wordsOf(failure: Failure): { icon: IconName; title: string; advice: string | undefined } {
  const { reach } = understand;
  const origin = originOf(failure);
  if (failure.kind === "refused" && origin === "cluster")
    return { icon: "lock", title: reach.refusedByCluster, advice: reach.refusedByClusterAdvice };
  if (failure.kind === "refused") return { icon: "lock", title: reach.refusedByHub, advice: reach.refusedByHubAdvice };
  if (failure.reason === "AGENT_OFFLINE")
    return { icon: "offline", title: reach.offline, advice: text.advice.AGENT_OFFLINE };
  if (failure.kind === "missing") return { icon: "search", title: reach.missing, advice: undefined };
  if (failure.kind === "unreachable" && origin === undefined)
    return { icon: "offline", title: text.failureTitle.unreachable, advice: text.failureAdvice.unreachable };
  const advice = text.advice[failure.reason];
  if (origin === "cluster") return { icon: "cross", title: reach.clusterFailed, advice };
  return { icon: "cross", title: failure.kind === "busy" ? text.failureTitle.busy : reach.agentFailed, advice };
}

const mayPass = ({ kind }: Failure) => kind !== "refused" && kind !== "missing" && kind !== "invalid";

export interface ReachProps {
  failure: Failure;
  /** The cluster, as people name it. */
  cluster: string;
  onRetry?: () => void;
  /** When what is still shown beside the failure was read. */
  asOf?: number | undefined;
}

/** ReachFailure stands where a cluster's answer would be: the words of the one that refused, and who can change that. */
export function ReachFailure({ failure, cluster, onRetry, command }: ReachProps & { command?: string }) {
  const { icon, title, advice } = wordsOf(failure);
  return (
    <div role="alert">
      <Empty
        icon={icon}
        title={title}
        action={onRetry && mayPass(failure) && <Button onClick={onRetry}>{text.tryAgain}</Button>}
      >
        {failure.message !== "" && <p>{failure.message}</p>}
        {advice && <p>{advice}</p>}
        {failure.kind === "refused" ? (
          <Command label={understand.reach.whatMayI}>{`leat access ${shellQuote(cluster)}`}</Command>
        ) : (
          command && <Command>{command}</Command>
        )}
      </Empty>
    </div>
  );
}

/** ReachNotice is the same as one line above or beside what is still there. */
export function ReachNotice({
  failure,
  onRetry,
  asOf,
  isShort = false,
}: Omit<ReachProps, "cluster"> & { isShort?: boolean }) {
  const { icon, title, advice } = wordsOf(failure);
  return (
    <div role="alert">
      <Notice tone={failure.kind === "failed" ? "warn" : "idle"} icon={icon} title={title}>
        {failure.message !== "" && <p>{failure.message}</p>}
        {advice && !isShort && <p>{advice}</p>}
        {asOf !== undefined && (
          <p>
            {understand.reach.shownFrom} <Age at={asOf} />
          </p>
        )}
        {onRetry && mayPass(failure) && (
          <p>
            <Button onClick={onRetry}>{text.tryAgain}</Button>
          </p>
        )}
      </Notice>
    </div>
  );
}
