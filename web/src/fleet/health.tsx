// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { use } from "react";
import { Health as HealthOf } from "../gen/leat/type/v1/state_pb";
import type { IconName } from "../parts/icon.tsx";
import { Stale, State, type Tone } from "../parts/phase.tsx";
import { text } from "../text/en.ts";

const looks: Record<number, { tone: Tone; icon: IconName }> = {
  [HealthOf.HEALTHY]: { tone: "ok", icon: "check" },
  [HealthOf.PROGRESSING]: { tone: "progress", icon: "half" },
  [HealthOf.DEGRADED]: { tone: "degraded", icon: "alert" },
  [HealthOf.TERMINATING]: { tone: "idle", icon: "clock" },
  [HealthOf.MISSING]: { tone: "bad", icon: "dashed" },
};

/** Returns how a health is painted. */
export const healthLook = (health: HealthOf): { tone: Tone; icon: IconName } =>
  looks[health] ?? { tone: "idle", icon: "unknown" };

/** ObjectHealth is the health of one object, with the cluster's own word for it if there is one. */
export function ObjectHealth({ health, word }: { health: HealthOf; word?: string }) {
  const isOld = use(Stale);
  const { tone, icon } = healthLook(health);
  const shown = word || (text.health[health] ?? text.phase.UNKNOWN);
  return (
    <State tone={isOld ? "idle" : tone} icon={icon}>
      {isOld ? text.wasPhase(shown) : shown}
    </State>
  );
}
