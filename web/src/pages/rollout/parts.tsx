// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Duration } from "@bufbuild/protobuf/wkt";
import { Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { ms } from "../../fleet/columns.tsx";
import { CommitLink } from "../../fleet/commit.tsx";
import { Card, Facts } from "../../fleet/page.tsx";
import { refIn, shellQuote } from "../../fleet/refs.ts";
import { RolloutProgress, RolloutState } from "../../fleet/rollouts.tsx";
import type {
  Rollout,
  RolloutContent,
  RolloutMember,
  RolloutPolicy,
  RolloutWaveStatus,
} from "../../gen/leat/fleet/v1/rollout_pb";
import { Age } from "../../parts/age.tsx";
import { type Column, Grid } from "../../parts/grid.tsx";
import type { IconName } from "../../parts/icon.tsx";
import { LiveState, type Tone } from "../../parts/phase.tsx";
import { useNarrow } from "../../parts/rows.ts";
import { Notice } from "../../parts/states.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import type { Detail } from "./members.ts";
import styles from "./page.module.css";

const words = delivery.rollout;

/** How many of a kind are in the page. No rollout that people make has as many. */
const mostShown = 100;

const secondsOf = (span: Duration | undefined): number => (span ? Number(span.seconds) + span.nanos / 1e9 : 0);

/** Waves are the steps of a rollout in their order: how far each is, and what the step after it waits for. */
export function Waves({
  rollout,
  policy,
  stages,
}: {
  rollout: Rollout;
  policy: RolloutPolicy;
  stages: Detail["stages"] | undefined;
}) {
  // The waves of members that no wave takes, and of late ones, are there without any; the policy's own say so.
  const shown = rollout.waves.filter(({ name, total }) => total > 0 || !["rest", "late"].includes(name));
  const now = rollout.waves.findIndex(({ name }) => name === rollout.wave);
  return (
    <Card title={words.waves}>
      <ol className={styles.waves}>
        {shown.slice(0, mostShown).map((wave) => (
          <li
            key={wave.name}
            className={styles.wave}
            aria-current={wave.name === rollout.wave && !rollout.endedAt ? "step" : undefined}
          >
            <div className={styles.waveHead}>
              <h3>{words.waveNames[wave.name] ?? wave.name}</h3>
              <WaveState wave={wave} rollout={rollout} isPast={now < 0 || rollout.waves.indexOf(wave) < now} />
            </div>
            {wave.total > 0 ? (
              <RolloutProgress
                rollout={{
                  arrived: wave.arrived,
                  total: wave.total,
                  failed: stages?.get(wave.name)?.get("failed") ?? 0,
                }}
              />
            ) : (
              <span className={styles.quiet}>{words.waveEmpty}</span>
            )}
            <Stages stages={stages?.get(wave.name)} />
            {wave.soakSince && !wave.passedAt && (
              <p>
                {words.soaksSince} <Age at={ms(wave.soakSince)} />
              </p>
            )}
            {wave.approvedBy.length > 0 && <p>{words.approvedBy(wave.approvedBy)}</p>}
            {!wave.passedAt && <Gate policy={policy} wave={wave} />}
          </li>
        ))}
      </ol>
    </Card>
  );
}

/** Planned is the waves that a policy's first rollout will have: whom each takes, and what has to be before the next. */
export function Planned({ policy }: { policy: RolloutPolicy }) {
  const waves = policy.spec?.waves ?? [];
  return (
    waves.length > 0 && (
      <Card title={words.waves}>
        <ol className={styles.waves}>
          {waves.slice(0, mostShown).map((wave) => (
            <li key={wave.name} className={styles.wave}>
              <h3>{words.waveNames[wave.name] ?? wave.name}</h3>
              <p>{words.takes(wave)}</p>
              <Gate policy={policy} wave={wave} />
            </li>
          ))}
        </ol>
      </Card>
    )
  );
}

function WaveState({ wave, rollout, isPast }: { wave: RolloutWaveStatus; rollout: Rollout; isPast: boolean }) {
  if (wave.skipped) {
    return (
      <LiveState tone="idle" icon="chevron">
        {words.waveSkipped}
      </LiveState>
    );
  }
  if (wave.passedAt || (isPast && rollout.state === "completed")) {
    return (
      <span className={styles.passed}>
        <LiveState tone="ok" icon="check">
          {words.wavePassed}
        </LiveState>
        <Age at={ms(wave.passedAt)} />
      </span>
    );
  }
  if (wave.name !== rollout.wave) {
    return (
      <LiveState tone="idle" icon="dashed">
        {words.waveLater}
      </LiveState>
    );
  }
  if (rollout.state === "running" && rollout.waitsOn !== "person") {
    return (
      <LiveState tone="progress" icon="half">
        {words.waveNow}
      </LiveState>
    );
  }
  return <RolloutState rollout={rollout} />;
}

/** Stages are the members of a wave by what has become of them. Those that have arrived are in its progress. */
function Stages({ stages }: { stages: ReadonlyMap<string, number> | undefined }) {
  const counts = [...(stages ?? [])].filter(([stage]) => stage !== "arrived");
  if (counts.length === 0) return null;
  return (
    <p className={styles.quiet}>
      {text.list(counts.map(([stage, n]) => `${text.number(n)} ${(words.stages[stage] ?? stage).toLowerCase()}`))}
    </p>
  );
}

/** Gate is what the policy asks for before the wave after this one. A policy that was edited may say more than holds. */
function Gate({ policy, wave }: { policy: RolloutPolicy; wave: { name: string } }) {
  const spec = policy.spec?.waves.find(({ name }) => name === wave.name);
  const soak = secondsOf(spec?.soak);
  const parts = [
    ...(soak > 0 ? [words.gateSoak(text.span(soak))] : []),
    ...(spec?.approval ? [words.gateApproval(spec.approval.count || 1, spec.approval.groups)] : []),
  ];
  return parts.length > 0 && <p className={styles.quiet}>{words.gate(parts)}</p>;
}

const stageLooks: Record<string, { tone: Tone; icon: IconName }> = {
  failed: { tone: "bad", icon: "cross" },
  goingBack: { tone: "degraded", icon: "half" },
  back: { tone: "degraded", icon: "alert" },
  admitted: { tone: "progress", icon: "half" },
  waiting: { tone: "idle", icon: "clock" },
  arrived: { tone: "ok", icon: "check" },
  unchanged: { tone: "idle", icon: "dashed" },
};

const memberColumns = (project: string): readonly Column<RolloutMember>[] => [
  {
    id: "service",
    title: words.service,
    width: "minmax(11rem, 1.5fr)",
    place: "title",
    cell: ({ service }) => (
      <Link to="/services/$" params={{ _splat: refIn(project, service) }} tabIndex={-1} className={styles.service}>
        {service}
      </Link>
    ),
  },
  {
    id: "stage",
    title: words.stage,
    width: "9rem",
    place: "state",
    cell: ({ stage }) => (
      <LiveState {...(stageLooks[stage] ?? { tone: "idle", icon: "unknown" })}>
        {words.stages[stage] ?? text.phase.UNKNOWN}
      </LiveState>
    ),
  },
  { id: "wave", title: words.column.wave, width: "minmax(5rem, 0.7fr)", place: "end", cell: ({ wave }) => wave },
  {
    id: "why",
    title: text.column.reason,
    width: "minmax(10rem, 3fr)",
    place: "note",
    cell: ({ why }) => <span title={why}>{why}</span>,
  },
];

/** Members are the services of the rollout, those that have failed first. */
export function Members({ detail, name, project }: { detail: Detail; name: string; project: string }) {
  const navigate = useNavigate();
  const { members } = detail;
  const row = useCallback((index: number) => members[index], [members]);
  const columns = useMemo(() => memberColumns(project), [project]);
  const isNarrow = useNarrow();
  return (
    <section className={styles.members}>
      <h2>{words.members}</h2>
      {detail.isCut && (
        <Notice
          tone="idle"
          icon="info"
          title={words.membersCut(members.length, `leat rollout status ${shellQuote(name)} -o json`)}
        />
      )}
      {members.length === 0 ? (
        <p className={styles.quiet}>{words.noMembers}</p>
      ) : (
        <div
          className={styles.memberRows}
          style={{ blockSize: `min(32rem, ${members.length * (isNarrow ? 64 : 36) + (isNarrow ? 2 : 40)}px)` }}
        >
          <Grid
            label={words.members}
            columns={columns}
            count={members.length}
            row={row}
            rowKey={({ service }) => service}
            onOpen={({ service }) => void navigate({ to: "/services/$", params: { _splat: refIn(project, service) } })}
          />
        </div>
      )}
    </section>
  );
}

/** Change is what the rollout brings: the content of each source, where it comes from, and who edited the rest. */
export function Change({
  project,
  rollout,
  history,
}: {
  project: string;
  rollout: Rollout;
  history: readonly Rollout[];
}) {
  const before = history.find(({ number, state }) => number < rollout.number && state === "completed");
  const contentBefore = ({ repository }: RolloutContent) =>
    before?.contents.find((content) => content.repository === repository);
  const link = ({ repository, commit, version }: RolloutContent) => (
    <CommitLink repository={refIn(project, repository)} commit={commit} version={version} />
  );
  return (
    <Card title={words.change}>
      <dl className={styles.contents}>
        {rollout.contents.slice(0, mostShown).map((content) => {
          const from = contentBefore(content);
          return (
            <div key={`${content.repository} ${content.commit}`}>
              <dt>{content.repository}</dt>
              <dd>
                {from && (
                  <>
                    <span className="unseen">{words.from}</span> {link(from)}
                    <span aria-hidden="true">→</span>
                    <span className="unseen">{words.to}</span>
                  </>
                )}
                {link(content)}
              </dd>
            </div>
          );
        })}
        {rollout.changes.length > 0 && (
          <div>
            <dt>{words.changes}</dt>
            <dd>{rollout.changes.slice(0, mostShown).join(", ")}</dd>
          </div>
        )}
        {rollout.authors.length > 0 && (
          <div>
            <dt>{words.editedBy}</dt>
            <dd>{text.list(rollout.authors.slice(0, mostShown))}</dd>
          </div>
        )}
      </dl>
      {before && rollout.contents.some(contentBefore) && <p className={styles.note}>{words.fromNote(before.number)}</p>}
    </Card>
  );
}

/** Policy is how the policy bounds its rollouts. */
export function Policy({ policy: { spec, status } }: { policy: RolloutPolicy }) {
  const windows = spec?.windows.length ?? 0;
  const freezes = spec?.freezes.length ?? 0;
  return (
    <Card title={words.policy}>
      <Facts
        facts={[
          [words.covers, words.coversOf(status?.services ?? 0, status?.takenOver ?? 0)],
          [words.maxUnavailable, spec?.maxUnavailable || "10%"],
          [words.budget, words.budgetOf(spec?.errorBudget?.failed ?? 0, spec?.errorBudget?.of || "wave")],
          [words.onHalt, words.onHaltOf[spec?.onHalt || "rollback"] ?? spec?.onHalt],
          [words.onOffline, words.onOfflineOf[spec?.onOffline || "skip"] ?? spec?.onOffline],
          [words.onNewer, words.onNewerOf[spec?.onNewer || "queue"] ?? spec?.onNewer],
          windows + freezes > 0 && [words.windows, words.windowsOf(windows, freezes)],
        ]}
      />
    </Card>
  );
}

/** History is the rollouts of the policy that the hub keeps. */
export function History({ name, rollouts, shown }: { name: string; rollouts: readonly Rollout[]; shown: bigint }) {
  return (
    <Card title={words.history}>
      <ol className={styles.history}>
        {rollouts.slice(0, mostShown).map((rollout, index) => (
          <li key={String(rollout.number)}>
            <Link
              to="/rollouts/$"
              params={{ _splat: name }}
              search={index === 0 ? {} : { number: Number(rollout.number) }}
              activeOptions={{ exact: true }}
              aria-current={rollout.number === shown ? "true" : undefined}
            >
              {words.numbered(rollout.number)}
            </Link>
            <RolloutState rollout={rollout} />
            <Age at={ms(rollout.startedAt)} />
          </li>
        ))}
      </ol>
    </Card>
  );
}
