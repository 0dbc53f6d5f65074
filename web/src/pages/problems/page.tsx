// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { CommitLink } from "../../fleet/commit.tsx";
import { Page } from "../../fleet/page.tsx";
import { hasPage, listPage, objectPage } from "../../fleet/refs.ts";
import { type GetFleetStatusResponse, type ProblemGroup, ProblemSeverity } from "../../gen/leat/fleet/v1/query_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { statusSource } from "../../hub/status.ts";
import { Age } from "../../parts/age.tsx";
import { classes } from "../../parts/classes.ts";
import { Command } from "../../parts/command.tsx";
import { Counters } from "../../parts/counters.tsx";
import type { IconName } from "../../parts/icon.tsx";
import { Icon } from "../../parts/icon.tsx";
import { LogLine } from "../../parts/line.tsx";
import { State, type Tone } from "../../parts/phase.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

const severities: Record<ProblemSeverity, { tone: Tone; icon: IconName }> = {
  [ProblemSeverity.UNSPECIFIED]: { tone: "ok", icon: "check" },
  [ProblemSeverity.WAITING]: { tone: "idle", icon: "clock" },
  [ProblemSeverity.WARNING]: { tone: "warn", icon: "info" },
  [ProblemSeverity.DEGRADED]: { tone: "degraded", icon: "alert" },
  [ProblemSeverity.FAILED]: { tone: "bad", icon: "cross" },
};

/** ProblemsPage is the front page. It begins with what is wrong, since when and why; how much there is comes second. */
export function ProblemsPage() {
  const hub = useHub();
  const { value, failure, link, store } = useLive("status", () => statusSource(hub.query), hub.surroundings);
  useTitle(text.problems);
  if (!value) {
    return failure ? (
      <ErrorState failure={failure} onRetry={store.retry} command="leat status" />
    ) : (
      <Skeleton lines={8} />
    );
  }
  const serious = value.problems.filter((problem) => problem.severity > ProblemSeverity.WAITING).length;
  return (
    <Page>
      <div className={styles.head}>
        <h1>
          {serious > 0
            ? text.problemCount(serious + value.omitted)
            : value.problems.length > 0
              ? text.waitingOnly
              : text.allWell}
        </h1>
        <Command label={text.sameAs}>leat status</Command>
      </div>
      {link === "reconnecting" && <Notice tone="warn" icon="offline" title={text.linkTitle.reconnecting} />}
      {link === "stopped" && failure && <ErrorState failure={failure} onRetry={store.retry} />}
      <div className={styles.body}>
        <Problems status={value} />
        <div className={styles.counts}>
          <Counts title={text.services} to="/services" counts={value.services} />
          <Counts title={text.clusters} to="/clusters" counts={value.clusters} />
          <Counts title={text.repositories} to="/repositories" counts={value.repositories} />
        </div>
      </div>
    </Page>
  );
}

function Counts({
  title,
  to,
  counts,
}: {
  title: string;
  to: "/services" | "/clusters" | "/repositories";
  counts: readonly { value: string; count: number }[];
}) {
  return (
    <Counters
      title={<Link to={to}>{title}</Link>}
      counts={counts.map(({ value, count }) => ({ phase: value, count }))}
      link={(phase, children) => (
        <Link to={to} search={{ phase }}>
          {children}
        </Link>
      )}
    />
  );
}

const totalOf = (counts: readonly { count: number }[]) => counts.reduce((sum, { count }) => sum + count, 0);

const mostProblems = 100;

function Problems({ status }: { status: GetFleetStatusResponse }) {
  const omitted = status.omitted + Math.max(0, status.problems.length - mostProblems);
  if (status.problems.length > 0) {
    return (
      <div className={styles.problems}>
        <ol>
          {status.problems.slice(0, mostProblems).map((problem) => (
            <Problem
              key={`${problem.kind} ${problem.reason} ${problem.examples[0]} ${problem.commit}`}
              problem={problem}
            />
          ))}
        </ol>
        {omitted > 0 && <p className={styles.omitted}>{text.problemsOmitted(omitted)}</p>}
      </div>
    );
  }
  const clusters = totalOf(status.clusters);
  return (
    <div className={classes(styles.problems, styles.none)}>
      {clusters === 0 ? (
        <Empty icon="cluster" title={text.noFleet} action={<Command>leat cluster create NAME -o kubernetes</Command>}>
          <p>{text.noFleetBody}</p>
        </Empty>
      ) : (
        <Empty icon="check" tone="ok" title={text.nothingWrong}>
          <p>{text.allWellBody(totalOf(status.services), clusters)}</p>
        </Empty>
      )}
    </div>
  );
}

/** Problem is one cause: how bad, how many and since when; what the hub says; what helps; and what is affected. */
function Problem({ problem }: { problem: ProblemGroup }) {
  const { tone, icon } = severities[problem.severity] ?? severities[ProblemSeverity.WARNING];
  const reason = reasonName(problem.reason);
  const advice = text.advice[reason];
  const first = ms(problem.firstSince);
  const last = ms(problem.lastSince);
  const where =
    problem.kind === "Cluster"
      ? problem.services > 0 && text.withServices(problem.services)
      : problem.clusters > 0 && text.inClusters(problem.clusters);
  const shown = problem.examples.slice(0, 5);
  const to = listPage(problem.kind);
  return (
    <li className={classes(styles.problem, styles[tone])}>
      <div className={styles.line}>
        <State tone={tone} icon={icon}>
          {text.severity[problem.severity] ?? ""}
        </State>
        <span className={styles.size}>
          <strong>{text.count(problem.objects, problem.kind)}</strong> {where}
        </span>
        {first !== undefined && (
          <span className={styles.since}>
            <Age at={first} />
            {last !== undefined && last - first > 120_000 && (
              <>
                , {text.lastSeen} <Age at={last} />
              </>
            )}
          </span>
        )}
      </div>
      <h2 className={styles.message}>
        <LogLine most={1000}>{problem.message}</LogLine>
      </h2>
      {(reason !== "" || problem.repository !== "") && (
        <p className={styles.cause}>
          {reason !== "" && <code>{reason}</code>}
          {problem.repository !== "" && (
            <span>
              <Ref kind="Repository">{problem.repository}</Ref>
              {problem.commit ? (
                <CommitLink repository={problem.repository} commit={problem.commit} version={problem.version} />
              ) : (
                problem.version && <code>{problem.version}</code>
              )}
            </span>
          )}
        </p>
      )}
      {advice && (
        <p className={styles.advice}>
          <Icon name="chevron" />
          <span>{advice}</span>
        </p>
      )}
      <ul className={styles.examples}>
        {shown.map((ref) => (
          <li key={ref}>
            <Ref kind={problem.kind}>{ref}</Ref>
          </li>
        ))}
        {to && problem.filter !== "" && (problem.objects > shown.length || !hasPage(problem.kind)) && (
          <li>
            <Link to={to} search={{ filter: problem.filter }}>
              {text.showAll(problem.objects, problem.kind)}
            </Link>
          </li>
        )}
      </ul>
    </li>
  );
}

function Ref({ kind, children }: { kind: string; children: string }): ReactNode {
  const to = objectPage(kind);
  if (!to) return children;
  return (
    <Link to={to} params={{ _splat: children }}>
      {children}
    </Link>
  );
}
