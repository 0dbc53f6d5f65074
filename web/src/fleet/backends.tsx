// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ConfigBackend } from "../gen/leat/fleet/v1/config_backend_pb";
import type { IconName } from "../parts/icon.tsx";
import { LiveState, type Tone } from "../parts/phase.tsx";
import { text } from "../text/en.ts";
import { govern } from "../text/govern.ts";

const words = govern.configuration;

/** Returns how a back end is. A hub reads only the paths that services refer to. */
export function lookOf({ status }: ConfigBackend): { tone: Tone; icon: IconName; word: string } {
  if ((status?.failing ?? 0) > 0 || status?.problem) return { tone: "bad", icon: "cross", word: words.states.failing };
  if ((status?.entries ?? 0) === 0) return { tone: "idle", icon: "dashed", word: words.states.unused };
  if (!status?.readTime) return { tone: "progress", icon: "half", word: words.states.waiting };
  return { tone: "ok", icon: "check", word: words.states.read };
}

/** BackendState is how a back end is, as an icon and a word. */
export function BackendState({ backend }: { backend: ConfigBackend }) {
  const { tone, icon, word } = lookOf(backend);
  return (
    <LiveState tone={tone} icon={icon}>
      {word}
    </LiveState>
  );
}

/** Returns what kind of back end it is, in words. */
export const kindOf = ({ spec }: ConfigBackend): string => words.backendKinds[spec?.kind.case ?? ""] ?? text.none;
