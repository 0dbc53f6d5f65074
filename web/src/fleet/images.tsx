// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { ImageOrder, type ImagePolicy } from "../gen/leat/fleet/v1/image_policy_pb";
import type { IconName } from "../parts/icon.tsx";
import { LiveState, type Tone } from "../parts/phase.tsx";
import { images as words } from "../text/images.ts";

/** Returns how an image policy is. */
export function lookOf({ spec, status }: ImagePolicy): { tone: Tone; icon: IconName; word: string } {
  if (spec?.suspended) return { tone: "idle", icon: "pause", word: words.states.suspended };
  if (status?.problem) return { tone: "bad", icon: "cross", word: words.states.problem };
  if (!status?.lookedAt) return { tone: "idle", icon: "dashed", word: words.states.never };
  return { tone: "ok", icon: "check", word: spec?.write ? words.states.writes : words.states.selects };
}

/** ImageState is how an image policy is, as an icon and a word. */
export function ImageState({ policy }: { policy: ImagePolicy }) {
  const { tone, icon, word } = lookOf(policy);
  return (
    <LiveState tone={tone} icon={icon}>
      {word}
    </LiveState>
  );
}

/** Returns what a policy selects by, as phrases. */
export function ruleOf({ spec }: ImagePolicy): string[] {
  const { range = "", pattern = "", order = ImageOrder.SEMVER } = spec?.select ?? {};
  const greatest = words.greatest[order] ?? words.greatest[ImageOrder.SEMVER] ?? "";
  return [greatest, range && words.within(range), pattern && words.matching(pattern)].filter(Boolean);
}
