// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import type { Failure } from "../hub/failure.ts";
import { text } from "../text/en.ts";
import { Button } from "./button.tsx";
import { classes } from "./classes.ts";
import { Command } from "./command.tsx";
import { Icon, type IconName } from "./icon.tsx";
import type { Tone } from "./phase.tsx";
import styles from "./states.module.css";

/** Empty stands where a list would be: it says why nothing is there, and what a person can do next. */
export function Empty({
  icon = "info",
  tone = "idle",
  title,
  children,
  action,
}: {
  icon?: IconName;
  tone?: Tone;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className={classes(styles.empty, styles[tone])}>
      <Icon name={icon} size={32} />
      <h2>{title}</h2>
      {children && <div className={styles.body}>{children}</div>}
      {action && <div className={styles.action}>{action}</div>}
    </div>
  );
}

const icons: Record<Failure["kind"], IconName> = {
  signedOut: "key",
  refused: "lock",
  missing: "search",
  invalid: "alert",
  unreachable: "offline",
  busy: "clock",
  failed: "cross",
};

/**
 * ErrorState stands where a failed page would be. The hub's own words come first, then its advice for the reason. Only a
 * failure that may pass offers another try.
 */
export function ErrorState({
  failure,
  onRetry,
  command,
}: {
  failure: Failure;
  onRetry?: () => void;
  command?: string;
}) {
  const advice = text.advice[failure.reason] ?? text.failureAdvice[failure.kind];
  const tone: Tone = failure.kind === "failed" || failure.kind === "invalid" ? "bad" : "idle";
  const mayPass = failure.kind !== "refused" && failure.kind !== "missing" && failure.kind !== "invalid";
  return (
    <div role="alert">
      <Empty
        icon={icons[failure.kind]}
        tone={tone}
        title={text.failureTitle[failure.kind]}
        action={onRetry && mayPass && <Button onClick={onRetry}>{text.tryAgain}</Button>}
      >
        {failure.kind !== "unreachable" && failure.message !== "" && <p>{failure.message}</p>}
        {advice && <p>{advice}</p>}
        {failure.reason !== "" && <p className={styles.reason}>{failure.reason}</p>}
        {command && <Command>{command}</Command>}
      </Empty>
    </div>
  );
}

/** Notice is one line above content that is still there: a problem of an object, or of the connection. */
export function Notice({
  tone,
  icon,
  title,
  children,
}: {
  tone: Tone;
  icon: IconName;
  title: ReactNode;
  children?: ReactNode;
}) {
  return (
    <div className={classes(styles.notice, styles[tone])}>
      <Icon name={icon} />
      <div>
        <div className={styles.noticeTitle}>{title}</div>
        {children && <div className={styles.noticeBody}>{children}</div>}
      </div>
    </div>
  );
}

/** Skeleton keeps the place of what loads. It appears after a moment, so that what is fast does not flicker. */
export function Skeleton({ lines = 3, label = text.loading }: { lines?: number; label?: string }) {
  return (
    <div className={styles.skeleton} role="status">
      <span className="unseen">{label}</span>
      {Array.from({ length: lines }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are alike and never move
        <span key={index} className={styles.line} style={{ inlineSize: `${[92, 74, 83, 61][index % 4]}%` }} />
      ))}
    </div>
  );
}
