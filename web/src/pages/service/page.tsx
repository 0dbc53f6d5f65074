// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { type Step, StepDialog } from "../../fleet/action.tsx";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { CommitLink } from "../../fleet/commit.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { PauseOf, PinOf } from "../../fleet/pause.tsx";
import { refIn, shellQuote, splitService } from "../../fleet/refs.ts";
import { phaseSince } from "../../fleet/since.ts";
import { Table } from "../../fleet/table.tsx";
import type { ServiceReport } from "../../gen/leat/distributor/v1/distributor_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { RevisionOutcome } from "../../gen/leat/fleet/v1/resources_pb";
import type { GitRef, Source } from "../../gen/leat/type/v1/source_pb";
import { ServicePhase } from "../../gen/leat/type/v1/state_pb";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, useLive } from "../../hub/live.ts";
import { objectSource } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { LogLine } from "../../parts/line.tsx";
import { ExternalLink } from "../../parts/link.tsx";
import type { Tone } from "../../parts/phase.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import type { ServiceTab } from "../../shell/router.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { condition } from "../../text/condition.ts";
import { text } from "../../text/en.ts";
import { metrics } from "../../text/metrics.ts";
import { serviceText } from "../../text/service.ts";
import { understand } from "../../text/understand.ts";
import { rollbackStep, ServiceActions, useServiceRights } from "./actions.tsx";
import { useRevisions } from "./revisions.ts";

const route = getRouteApi("/services/$");

// The phases of which somebody asks why, and those that a page explains before it is asked.
const unwell = ["FAILED", "DEGRADED", "PROGRESSING", "SYNCING", "PENDING"];
const explained = ["FAILED", "DEGRADED"];

// What asks the cluster is loaded by those who look at it.
const Why = lazy(() => import("./why.tsx").then((module) => ({ default: module.Why })));
const Objects = lazy(() => import("./objects.tsx").then((module) => ({ default: module.Objects })));
const Logs = lazy(() => import("./logs.tsx").then((module) => ({ default: module.Logs })));
const Events = lazy(() => import("./events.tsx").then((module) => ({ default: module.Events })));
const Config = lazy(() => import("./config.tsx").then((module) => ({ default: module.Config })));
const Diff = lazy(() => import("./diff.tsx").then((module) => ({ default: module.Diff })));
const PodMetrics = lazy(() => import("./metrics.tsx").then((module) => ({ default: module.PodMetrics })));
const Prune = lazy(() => import("./prune.tsx").then((module) => ({ default: module.Prune })));

/** ServicePage is one service: how it is and why, what it runs, and what it ran before. */
export function ServicePage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `service ${ref}`,
    () => objectSource(hub.call(FleetService), "Service", ref),
    hub.surroundings,
  );
  useTitle(ref);
  const command = `leat get service ${shellQuote(ref)}`;
  if (failure && (!value || link === "stopped"))
    return <ErrorState failure={failure} onRetry={store.retry} command={command} />;
  if (link === "loading") return <Skeleton lines={8} />;
  const service = value?.object.case === "service" ? value.object.value : undefined;
  if (!service) {
    return (
      <ErrorState failure={{ kind: "missing", reason: "", message: "", metadata: {} }} command="leat get services" />
    );
  }
  return <Shown name={ref} service={service} link={link} />;
}

function Shown({ name: ref, service, link }: { name: string; service: Service; link: LinkState }) {
  const search = route.useSearch();
  const { tab, why } = search;
  const navigate = useNavigate();
  const refused = useServiceRights(ref, service);
  const { status, spec } = service;
  const { name } = splitService(ref);
  const command = `leat get service ${shellQuote(ref)}`;
  const report = status?.report;
  const phase = ServicePhase[status?.phase ?? 0] ?? "UNKNOWN";
  const problem = status?.problem;
  const reason = problem ? reasonName(problem.reason) : "";
  const isUnwell = unwell.includes(phase);
  // A cluster that is away is not asked: its head says so.
  const isExplained =
    isUnwell && (why ?? (tab === undefined && explained.includes(phase) && reason !== "AGENT_OFFLINE"));
  const explain = (isOpen: boolean) =>
    void navigate({
      to: "/services/$",
      params: { _splat: ref },
      search: { ...search, why: isOpen },
      replace: true,
    });
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/services", title: text.services }}
        name={name}
        phase={phase === "UNSPECIFIED" ? "UNKNOWN" : phase}
        since={phaseSince(status)}
        isOld={reason === "AGENT_OFFLINE"}
        link={link}
        problem={problem && { reason, message: problem.message }}
        facts={
          <>
            <Link to="/clusters/$" params={{ _splat: spec?.cluster ?? "" }}>
              {spec?.cluster}
            </Link>
            <Badge mono>{spec?.namespace || "default"}</Badge>
          </>
        }
        actions={<ServiceActions name={ref} service={service} refused={refused} />}
        command={command}
      />
      {report !== undefined && report.guardedSpecDigest !== "" && (
        <Suspense fallback={<Skeleton lines={4} />}>
          <Prune name={ref} service={service} />
        </Suspense>
      )}
      {isUnwell && !isExplained && (
        <div>
          <Button icon="unknown" onClick={() => explain(true)}>
            {understand.whyPanel.button}
          </Button>
        </div>
      )}
      {isExplained && (
        <Suspense fallback={<Skeleton lines={6} />}>
          <Why name={ref} service={service} onClose={() => explain(false)} />
        </Suspense>
      )}
      <Tabs
        label={name}
        chosen={tab ?? "overview"}
        onChange={(id) =>
          void navigate({
            to: "/services/$",
            params: { _splat: ref },
            search: {
              ...(why !== undefined && { why }),
              ...(id !== "overview" && { tab: id as ServiceTab }),
            },
            replace: true,
          })
        }
        tabs={[
          { id: "overview", label: serviceText.overview, content: <Overview service={service} /> },
          {
            id: "objects",
            label: understand.tree.tab,
            content: (
              <Suspense fallback={<Skeleton lines={8} />}>
                <Objects name={ref} service={service} />
              </Suspense>
            ),
          },
          {
            id: "logs",
            label: understand.logs.tab,
            content: (
              <Suspense fallback={<Skeleton lines={8} />}>
                <Logs name={ref} service={service} />
              </Suspense>
            ),
          },
          {
            id: "events",
            label: understand.events.tab,
            content: (
              <Suspense fallback={<Skeleton lines={8} />}>
                <Events name={ref} service={service} />
              </Suspense>
            ),
          },
          {
            id: "diff",
            label: understand.diff.tab,
            content: (
              <Suspense fallback={<Skeleton lines={8} />}>
                <Diff name={ref} service={service} />
              </Suspense>
            ),
          },
          {
            id: "config",
            label: text.configuration,
            content: (
              <Suspense fallback={<Skeleton lines={8} />}>
                <Config name={ref} />
              </Suspense>
            ),
          },
          {
            id: "metrics",
            label: metrics.tab,
            content: (
              <Suspense fallback={<Skeleton lines={8} />}>
                <PodMetrics name={ref} service={service} />
              </Suspense>
            ),
          },
          {
            id: "revisions",
            label: serviceText.revisions,
            content: <Revisions name={ref} service={service} refused={refused("rollback")} />,
          },
        ]}
      />
    </Page>
  );
}

interface AppliedProps {
  isApplied: boolean;
  report: ServiceReport | undefined;
  index: number;
  source: Source;
}

/** Applied is whether the cluster has what the hub has found in a source, and what it has where that is something else. */
function Applied({ isApplied, report, index, source: { repository } }: AppliedProps) {
  const commit = report?.appliedCommits[index] ?? "";
  if (isApplied) return serviceText.applied;
  return (
    <>
      <span>{serviceText.notApplied}</span>
      {commit !== "" && (
        <span>
          {serviceText.instead}
          <CommitLink repository={repository} commit={commit} version={report?.appliedVersions[index]} />
        </span>
      )}
    </>
  );
}

const refName = (ref: GitRef | undefined): string => ref?.selector.value ?? text.head;

function Overview({ service }: { service: Service }) {
  const { spec, status } = service;
  const report = status?.report;
  const hold = status?.hold;
  const project = service.metadata?.project ?? "";
  const globalService = status?.globalService ?? "";
  const drift = report?.drift ?? [];
  return (
    <div style={{ display: "grid", gap: "var(--space-5)", gridTemplateColumns: "minmax(0, 1fr)" }}>
      <Card title={serviceText.sources}>
        <Table
          columns={[
            text.column.repository,
            text.column.ref,
            text.column.path,
            text.column.commit,
            serviceText.applied,
            text.column.resolved,
          ]}
          rows={(spec?.sources ?? []).map((source, index) => {
            const state = status?.sources[index];
            const snapshot = state?.snapshot;
            const isApplied = snapshot !== undefined && report?.appliedDigests[index] === snapshot.digest;
            return {
              key: String(index),
              cells: [
                <Link key="repository" to="/repositories/$" params={{ _splat: source.repository }}>
                  {source.repository}
                </Link>,
                <code key="ref">{refName(source.ref)}</code>,
                <code key="path">{source.chart || source.path || "."}</code>,
                snapshot ? (
                  <CommitLink
                    key="commit"
                    repository={source.repository}
                    commit={snapshot.commit}
                    version={snapshot.version}
                  />
                ) : (
                  serviceText.neverResolved
                ),
                <Applied key="applied" isApplied={isApplied} report={report} index={index} source={source} />,
                <Age key="age" at={ms(state?.resolvedAt)} />,
              ],
              note: state?.problem && (
                <Notice
                  tone={snapshot ? "degraded" : "bad"}
                  icon="alert"
                  title={`${reasonName(state.problem.reason)}: ${state.problem.message.slice(0, 1000)}`}
                />
              ),
            };
          })}
        />
      </Card>
      <Card title={text.conditions}>
        <Facts
          facts={[
            [condition.synced, status?.synced ? condition.syncedYes : condition.syncedNo],
            report?.counts && [condition.objects, condition.objectsOf(report.counts.healthy, report.counts.total)],
            [condition.applied, report?.appliedAt ? <Age key="age" at={ms(report.appliedAt)} /> : condition.never],
            [condition.drift, drift.length > 0 ? condition.driftSome(drift.length) : condition.driftNone],
            status?.syncRequest !== "" &&
              status?.syncRequest !== report?.observedSyncRequest && [condition.sync, condition.syncWaits],
            [condition.paused, <PauseOf key="paused" service={service} />],
            spec?.dryRun && [condition.dryRun, condition.dryRunYes],
            hold && hold.pinnedRevision > 0n && [condition.hold, <PinOf key="pin" hold={hold} />],
            hold !== undefined &&
              hold.policy !== "" && [
                condition.rollout,
                <Link key="rollout" to="/rollouts/$" params={{ _splat: refIn(project, hold.policy) }}>
                  {hold.waitsFor || condition.heldUntil(hold.policy)}
                </Link>,
              ],
            globalService !== "" && [
              condition.derivedFrom,
              <Link key="global" to="/global-services/$" params={{ _splat: refIn(project, globalService) }}>
                {globalService}
              </Link>,
            ],
          ]}
        />
      </Card>
      <Card title={serviceText.objects}>
        {report && report.objects.length > 0 ? (
          <Table
            columns={[text.column.object, text.column.namespace, text.column.health, text.column.message]}
            rows={report.objects.map((object, index) => ({
              key: String(index),
              cells: [
                <span key="object">
                  {object.ref?.kind} <strong>{object.ref?.name}</strong>
                </span>,
                object.ref?.namespace,
                text.health[object.health] ?? text.phase.UNKNOWN,
                object.problem && (
                  <span key="message">
                    <code>{reasonName(object.problem.reason)}</code>{" "}
                    <LogLine most={1000}>{object.problem.message}</LogLine>
                  </span>
                ),
              ],
            }))}
          />
        ) : (
          <p style={{ padding: "var(--space-4)", color: "var(--ink-2)" }}>{serviceText.noObjects}</p>
        )}
      </Card>
      {drift.length > 0 && (
        <Card title={serviceText.driftTitle}>
          <Table
            columns={[text.column.object, text.column.namespace, text.column.message]}
            rows={drift.map((object, index) => ({
              key: String(index),
              cells: [
                <span key="object">
                  {object.ref?.kind} <strong>{object.ref?.name}</strong>
                </span>,
                object.ref?.namespace,
                <code key="fields">{object.fields.map((field) => field.path).join(", ")}</code>,
              ],
            }))}
          />
        </Card>
      )}
    </div>
  );
}

const outcomes: Record<RevisionOutcome, Tone> = {
  [RevisionOutcome.UNSPECIFIED]: "progress",
  [RevisionOutcome.HEALTHY]: "ok",
  [RevisionOutcome.FAILED]: "bad",
  [RevisionOutcome.SUPERSEDED]: "idle",
};

function Revisions({ name, service, refused }: { name: string; service: Service; refused: string | undefined }) {
  const hub = useHub();
  const [step, setStep] = useState<Step>();
  const { value, failure, retry } = useRevisions("revisions", name, service);
  const sources = service.spec?.sources ?? [];
  const command = `leat history service/${shellQuote(name)}`;
  if (!value) return failure ? <ErrorState failure={failure} onRetry={retry} command={command} /> : <Skeleton />;
  if (value.length === 0) {
    return (
      <Empty icon="clock" title={serviceText.noRevisions}>
        <p>{serviceText.noRevisionsBody}</p>
      </Empty>
    );
  }
  return (
    <Card title={serviceText.revisions} note={<Command label={text.sameAs}>{command}</Command>}>
      <Table
        columns={[
          text.column.revision,
          text.column.outcome,
          text.column.commit,
          text.column.message,
          text.column.planned,
          text.column.took,
          text.column.action,
        ]}
        rows={value.map((revision, index) => {
          const from = ms(revision.plannedAt);
          const to = ms(revision.healthyAt);
          return {
            key: String(revision.number),
            cells: [
              <data key="number" value={String(revision.number)}>
                {String(revision.number)}
              </data>,
              <Badge key="outcome" tone={outcomes[revision.outcome] ?? "idle"}>
                {serviceText.outcome[revision.outcome] ?? text.phase.UNKNOWN}
              </Badge>,
              <CommitLink
                key="commit"
                // A revision does not name its repositories. With as many sources as now they are most likely the same.
                repository={sources.length === revision.commits.length ? sources[0]?.repository : undefined}
                commit={revision.commits[0] ?? ""}
                version={revision.versions[0]}
                title={revision.commits.join(", ")}
              />,
              revision.problem && (
                <span key="message">
                  <code>{reasonName(revision.problem.reason)}</code>{" "}
                  <LogLine most={1000}>{revision.problem.message}</LogLine>
                </span>
              ),
              <Age key="planned" at={from} />,
              <span key="took">
                {from !== undefined && to !== undefined && to >= from && text.seconds((to - from) / 1000)}{" "}
                {revision.traceUrl !== "" && <ExternalLink href={revision.traceUrl}>{serviceText.trace}</ExternalLink>}
              </span>,
              index === 0 ? (
                serviceText.present
              ) : (
                <Button
                  key="rollback"
                  refused={refused}
                  aria-label={serviceText.rollbackTo(revision.number)}
                  onClick={() => setStep(rollbackStep(hub, name, service, revision, setStep))}
                >
                  {serviceText.rollback}
                </Button>
              ),
            ],
          };
        })}
      />
      <StepDialog step={step} onClose={() => setStep(undefined)} />
    </Card>
  );
}
