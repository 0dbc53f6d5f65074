// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Rollout } from "../gen/leat/fleet/v1/rollout_pb";
import type { IconName } from "../parts/icon.tsx";
import { LiveState, type Tone } from "../parts/phase.tsx";
import { delivery } from "../text/delivery.ts";
import { text } from "../text/en.ts";
import { Bar } from "./bar.tsx";
import styles from "./rollouts.module.css";

// The words for how far rollouts are, which their list and their page share.

const looks: Record<string, { tone: Tone; icon: IconName }> = {
  running: { tone: "progress", icon: "half" },
  paused: { tone: "idle", icon: "pause" },
  halted: { tone: "bad", icon: "cross" },
  rollingBack: { tone: "degraded", icon: "half" },
  completed: { tone: "ok", icon: "check" },
  rolledBack: { tone: "degraded", icon: "alert" },
  aborted: { tone: "idle", icon: "close" },
  replaced: { tone: "idle", icon: "chevron" },
};

const unknown: { tone: Tone; icon: IconName } = { tone: "idle", icon: "unknown" };

/** Reports whether nothing happens until a person decides. */
export const needsPerson = (rollout: Rollout): boolean =>
  rollout.state === "halted" || (rollout.state === "running" && rollout.waitsOn === "person");

const endings = ["completed", "rolledBack", "aborted", "replaced"];

/** Reports whether a rollout is over, so that nobody can steer it. */
export const hasEnded = (rollout: Rollout): boolean => endings.includes(rollout.state);

/** Returns how good or bad it is. */
export const toneOfRollout = (rollout: Rollout | undefined): Tone => {
  if (!rollout) return "idle";
  return rollout.state === "running" && needsPerson(rollout) ? "warn" : (looks[rollout.state] ?? unknown).tone;
};

/** RolloutState is how a rollout is, as an icon and a word. */
export function RolloutState({ rollout }: { rollout: Rollout | undefined }) {
  if (!rollout) {
    return (
      <LiveState tone="idle" icon="dashed">
        {delivery.rollout.noneYet}
      </LiveState>
    );
  }
  if (rollout.state === "running" && needsPerson(rollout)) {
    return (
      <LiveState tone="warn" icon="person">
        {delivery.rollout.waitsOnPerson}
      </LiveState>
    );
  }
  const { icon } = looks[rollout.state] ?? unknown;
  return (
    <LiveState tone={toneOfRollout(rollout)} icon={icon}>
      {delivery.rollout.states[rollout.state] ?? text.phase.UNKNOWN}
    </LiveState>
  );
}

/** RolloutProgress is how many members have the change, of how many, and how many have failed. */
export function RolloutProgress({ rollout }: { rollout: Pick<Rollout, "arrived" | "total" | "failed"> }) {
  const { arrived, failed, total } = rollout;
  return (
    <span className={styles.progress}>
      <Bar
        parts={[
          { tone: "ok", count: arrived },
          { tone: "bad", count: failed },
        ]}
        total={total}
      />
      <span className={styles.counts}>
        {delivery.rollout.progress(arrived, total)}
        {failed > 0 && <strong>{delivery.rollout.failed(failed)}</strong>}
      </span>
    </span>
  );
}
