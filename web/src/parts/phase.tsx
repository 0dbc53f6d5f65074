// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createContext, use } from "react";
import { text } from "../text/en.ts";
import { classes } from "./classes.ts";
import { Icon, type IconName } from "./icon.tsx";
import styles from "./phase.module.css";

/** How good or bad a state is. Each has one colour. */
export type Tone = "ok" | "progress" | "warn" | "degraded" | "bad" | "idle";

const unknown: { tone: Tone; icon: IconName } = { tone: "idle", icon: "unknown" };

/** The phases of services, clusters and repositories, as the hub names them in rows. */
const phases: Record<string, { tone: Tone; icon: IconName }> = {
  HEALTHY: { tone: "ok", icon: "check" },
  PROGRESSING: { tone: "progress", icon: "half" },
  SYNCING: { tone: "progress", icon: "half" },
  PENDING: { tone: "idle", icon: "clock" },
  PAUSED: { tone: "idle", icon: "pause" },
  DEGRADED: { tone: "degraded", icon: "alert" },
  FAILED: { tone: "bad", icon: "cross" },
  CONNECTED: { tone: "ok", icon: "check" },
  DISCONNECTED: { tone: "bad", icon: "offline" },
  NOT_JOINED: { tone: "idle", icon: "dashed" },
  READY: { tone: "ok", icon: "check" },
  CLONING: { tone: "progress", icon: "half" },
  STALE: { tone: "degraded", icon: "clock" },
  SUSPENDED: { tone: "idle", icon: "pause" },
};

export const phaseNames = Object.keys(phases);

export const toneOf = (phase: string): Tone => (phases[phase] ?? unknown).tone;

/** Stale is true around what the hub cannot confirm now, because it does not answer. */
export const Stale = createContext(false);

/**
 * Phase shows an icon and a word, never a colour alone. An old one is grey, because its cluster cannot confirm it: the
 * word says so.
 */
export function Phase({ phase, isOld = false }: { phase: string; isOld?: boolean }) {
  const isStale = use(Stale) || isOld;
  const { tone, icon } = phases[phase] ?? unknown;
  const word = text.phase[phase as keyof typeof text.phase] ?? text.phase.UNKNOWN;
  return (
    <State tone={isStale ? "idle" : tone} icon={icon}>
      {isStale ? text.wasPhase(word) : word}
    </State>
  );
}

/** LiveState is a state that is no phase. As a phase, it is grey while the hub cannot confirm it. */
export function LiveState({ tone, icon, children }: { tone: Tone; icon: IconName; children: string }) {
  const isStale = use(Stale);
  return (
    <State tone={isStale ? "idle" : tone} icon={icon}>
      {isStale ? text.wasPhase(children) : children}
    </State>
  );
}

export function State({ tone, icon, children }: { tone: Tone; icon: IconName; children: string }) {
  return (
    <span className={classes(styles.state, styles[tone])}>
      <Icon name={icon} />
      {children}
    </span>
  );
}
