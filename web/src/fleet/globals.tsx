// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { GlobalServiceStatus } from "../gen/leat/fleet/v1/global_service_pb";
import type { IconName } from "../parts/icon.tsx";
import { LiveState, type Tone } from "../parts/phase.tsx";
import { delivery } from "../text/delivery.ts";
import { text } from "../text/en.ts";

const words = delivery.globalService;

/** Returns how a global service is, from the counts of its clusters. */
export function lookOf(status: GlobalServiceStatus | undefined): { tone: Tone; icon: IconName; word: string } {
  if (!status) return { tone: "idle", icon: "unknown", word: text.phase.UNKNOWN };
  const { clusters, healthy, unhealthy, conflicts, failing, held } = status;
  if (held > 0) return { tone: "warn", icon: "person", word: words.states.held };
  if (clusters > 0 && unhealthy === clusters) return { tone: "bad", icon: "cross", word: words.states.unhealthy };
  if (failing > 0 || conflicts > 0) return { tone: "degraded", icon: "alert", word: words.states.attention };
  if (clusters === 0) return { tone: "idle", icon: "dashed", word: words.states.none };
  if (unhealthy > 0) return { tone: "degraded", icon: "alert", word: words.states.somewhere };
  // The others are on their way; the clusters' own rows say which.
  if (healthy < clusters) return { tone: "progress", icon: "half", word: words.states.partly };
  return { tone: "ok", icon: "check", word: words.states.healthy };
}

/** GlobalState is how a global service is, as an icon and a word. */
export function GlobalState({ status }: { status: GlobalServiceStatus | undefined }) {
  const { tone, icon, word } = lookOf(status);
  return (
    <LiveState tone={tone} icon={icon}>
      {word}
    </LiveState>
  );
}
