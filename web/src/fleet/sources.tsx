// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { FleetSource } from "../gen/leat/fleet/v1/fleet_source_pb";
import type { IconName } from "../parts/icon.tsx";
import { LiveState, type Tone } from "../parts/phase.tsx";
import { delivery } from "../text/delivery.ts";

const words = delivery.fleetSource.states;

/** Reports whether a fleet source is suspended. The hub's clock decides that the time of its document has passed. */
export const isSuspended = ({ spec, status }: FleetSource): boolean =>
  spec?.suspended === true && status?.suspensionEnded !== true;

/** Returns how a fleet source is: what a person has to do comes first. */
export function lookOf(source: FleetSource): { tone: Tone; icon: IconName; word: string } {
  const { status } = source;
  if (isSuspended(source)) return { tone: "idle", icon: "pause", word: words.suspended };
  if (!status?.lookedAt) return { tone: "idle", icon: "dashed", word: words.never };
  if (status.held > 0) return { tone: "warn", icon: "person", word: words.held };
  if (status.failed > 0 || status.problem) return { tone: "bad", icon: "cross", word: words.failed };
  if (status.pending > 0) return { tone: "progress", icon: "half", word: words.pending };
  // The look that has just begun to write has not equalled yet.
  if (!status.succeededAt) return { tone: "progress", icon: "half", word: words.old };
  return { tone: "ok", icon: "check", word: words.equal };
}

/** SourceState is how a fleet source is, as an icon and a word. */
export function SourceState({ source }: { source: FleetSource }) {
  const { tone, icon, word } = lookOf(source);
  return (
    <LiveState tone={tone} icon={icon}>
      {word}
    </LiveState>
  );
}
