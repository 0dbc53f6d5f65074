// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Link as LinkState } from "../hub/live.ts";
import { Age } from "../parts/age.tsx";
import { Command } from "../parts/command.tsx";
import { Icon } from "../parts/icon.tsx";
import { LogLine } from "../parts/line.tsx";
import { Phase, type Tone, toneOf } from "../parts/phase.tsx";
import { Notice } from "../parts/states.tsx";
import { text } from "../text/en.ts";
import styles from "./head.module.css";

/** ObjectHead is the top of an object's page: what it is, how it is and since when, why, and what helps. */
export function ObjectHead({
  kind,
  name,
  phase,
  state,
  since,
  isOld = false,
  link,
  problem,
  facts,
  actions,
  command,
}: {
  kind: {
    to:
      | "/services"
      | "/clusters"
      | "/repositories"
      | "/rollouts"
      | "/global-services"
      | "/fleet-sources"
      | "/image-policies"
      | "/projects"
      | "/configuration";
    title: string;
  };
  name: string;
  /** Empty for a kind that has none. */
  phase: string;
  /** How it is, if no phase has a word for that. */
  state?: { show: ReactNode; tone: Tone } | undefined;
  since: number | undefined;
  isOld?: boolean;
  link: LinkState;
  problem?: { reason: string; message: string } | undefined;
  facts?: ReactNode;
  actions?: ReactNode;
  command: string;
}) {
  const advice = problem && text.advice[problem.reason];
  const tone = state?.tone ?? toneOf(phase);
  return (
    <div className={styles.head}>
      <nav className={styles.crumbs} aria-label={kind.title}>
        <Icon name="chevron" />
        <Link to={kind.to}>{kind.title}</Link>
      </nav>
      <div className={styles.line}>
        <h1>{name}</h1>
        {(state || phase !== "") && (
          <span className={styles.phase}>
            {state?.show ?? <Phase phase={phase} isOld={isOld} />}
            <Age at={since} />
          </span>
        )}
        {facts && <div className={styles.facts}>{facts}</div>}
        <div className={styles.command}>
          <Command label={text.sameAs}>{command}</Command>
        </div>
      </div>
      {actions}
      {link === "reconnecting" && <Notice tone="warn" icon="offline" title={text.linkTitle.reconnecting} />}
      {isOld && <Notice tone="idle" icon="offline" title={text.oldWord} />}
      {problem && (
        <Notice
          tone={tone === "ok" || tone === "progress" ? "warn" : tone}
          icon="alert"
          title={<LogLine most={1000}>{problem.message || problem.reason}</LogLine>}
        >
          {advice && <p>{advice}</p>}
          {problem.reason !== "" && (
            <p>
              <code>{problem.reason}</code>
            </p>
          )}
        </Notice>
      )}
    </div>
  );
}
