// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link } from "@tanstack/react-router";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { GlobalState, lookOf } from "../../fleet/globals.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { isPausedAt } from "../../fleet/pause.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { Reason } from "../../gen/leat/errors/v1/reason_pb";
import type { ClusterTarget, GlobalService, GlobalServiceStatus } from "../../gen/leat/fleet/v1/global_service_pb";
import { LabelOperator } from "../../gen/leat/fleet/v1/people_pb";
import { useAnswer } from "../../hub/answer.ts";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, useLive } from "../../hub/live.ts";
import { rowSource } from "../../hub/object.ts";
import { Badge } from "../../parts/badge.tsx";
import { Command } from "../../parts/command.tsx";
import { ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import { Members } from "./members.tsx";
import styles from "./page.module.css";

const route = getRouteApi("/global-services/$");
const words = delivery.globalService;

/** GlobalServicePage is one global service: which clusters have it and why, and where it waits for a person. */
export function GlobalServicePage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `global service ${ref}`,
    () => rowSource(hub, "GlobalService", ref),
    hub.surroundings,
  );
  useTitle(ref);
  if (failure && (!value || link === "stopped")) {
    return <ErrorState failure={failure} onRetry={store.retry} command={`leat get globalservice ${shellQuote(ref)}`} />;
  }
  if (link === "loading") return <Skeleton lines={8} />;
  const object = value?.document?.object;
  if (object?.case !== "globalService") {
    return (
      <ErrorState
        failure={{ kind: "missing", reason: "", message: "", metadata: {} }}
        command="leat get globalservices"
      />
    );
  }
  return <Shown name={ref} service={object.value} since={ms(value?.since)} link={link} />;
}

function Shown({
  name,
  service,
  since,
  link,
}: {
  name: string;
  service: GlobalService;
  since: number | undefined;
  link: LinkState;
}) {
  const hub = useHub();
  const { spec, status } = service;
  const { after } = route.useSearch();
  const problem = status?.problem;
  const isHeldProblem = problem !== undefined && problem.reason === Reason.REMOVAL_HELD && (status?.held ?? 0) > 0;
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/global-services", title: text.globalServices }}
        name={name}
        phase=""
        state={{ show: <GlobalState status={status} />, tone: lookOf(status).tone }}
        since={ms(problem?.since) ?? since}
        link={link}
        // The notice below says what the problem of held removals does, and what to do.
        problem={
          problem && !isHeldProblem ? { reason: reasonName(problem.reason), message: problem.message } : undefined
        }
        facts={isPausedAt(spec, hub.surroundings.now()) && <Badge>{text.phase.PAUSED}</Badge>}
        command={`leat get globalservice ${shellQuote(name)}`}
      />
      {status && status.held > 0 && (
        <Notice tone="warn" icon="person" title={words.heldTitle(status.held)}>
          <p>{words.heldBody}</p>
          <Command>{`leat prune confirm globalservice/${shellQuote(name)}`}</Command>
        </Notice>
      )}
      {spec?.description && <p>{spec.description}</p>}
      <div className={styles.cards}>
        <Selection of={spec?.clusters} status={status} />
        <Template service={service} />
      </div>
      <Members name={name} after={after} version={versionOf(status)} />
    </Page>
  );
}

/** Returns a text that differs when clusters have come, gone or changed, so that the page of them is read again then. */
const versionOf = (status: GlobalServiceStatus | undefined): string =>
  status
    ? [
        status.clusters,
        status.healthy,
        status.unhealthy,
        status.conflicts,
        status.failing,
        status.forbidden,
        status.held,
      ].join()
    : "none";

const operators: Partial<Record<LabelOperator, (values: string) => string>> = {
  [LabelOperator.IN]: words.labelIn,
  [LabelOperator.NOT_IN]: words.labelNotIn,
  [LabelOperator.EXISTS]: () => words.labelExists,
  [LabelOperator.DOES_NOT_EXIST]: () => words.labelMissing,
};

/** Returns a filter of clusters that selects what the labels of a target do, if it can say so. */
function filterOf({ labels }: ClusterTarget): string | undefined {
  const terms = Object.entries(labels?.matchLabels ?? {}).map(([key, value]) => `label.${key}="${value}"`);
  const isPlain = (labels?.matchExpressions.length ?? 0) === 0 && terms.every((term) => !/["\\].*["\\].*"/.test(term));
  return terms.length > 0 && isPlain ? terms.join(" ") : undefined;
}

/** Selection is which clusters the global service selects, in the words of its spec, and what the hub counts of them. */
function Selection({ of: target, status }: { of: ClusterTarget | undefined; status: GlobalServiceStatus | undefined }) {
  const hub = useHub();
  const all = useAnswer(
    "clusters in all",
    String(status?.clusters),
    async (signal) => (await hub.query.queryFleet({ query: { kind: "Cluster", size: 1 } }, { signal })).total,
    hub.surroundings,
  );
  const names = target?.names ?? [];
  const labels = Object.entries(target?.labels?.matchLabels ?? {});
  const expressions = target?.labels?.matchExpressions ?? [];
  const filter = target && filterOf(target);
  const clusters = status?.clusters ?? 0;
  return (
    <Card title={words.selection}>
      <Facts
        facts={[
          target?.all && [words.selects, words.allClusters],
          labels.length + expressions.length > 0 && [
            words.byLabels,
            <span key="labels" className={styles.terms}>
              {labels.map(([key, value]) => (
                <Badge key={key} mono>
                  {key}={value}
                </Badge>
              ))}
              {expressions.map(({ key, operator, values }) => (
                <Badge key={`${key} ${operator}`} mono>
                  {key} {operators[operator]?.(values.join(", ")) ?? text.phase.UNKNOWN}
                </Badge>
              ))}
              {filter && (
                <Link to="/clusters" search={{ filter }}>
                  {words.showThem}
                </Link>
              )}
            </span>,
          ],
          names.length > 0 && [
            words.byNames,
            <span key="names" className={styles.terms}>
              {names.slice(0, mostNames).map((each) => (
                <Link key={each} to="/clusters/$" params={{ _splat: each }}>
                  {each}
                </Link>
              ))}
              {names.length > mostNames && <span>{words.andMore(names.length - mostNames)}</span>}
            </span>,
          ],
          target !== undefined && target.when !== "" && [words.byCondition, <code key="when">{target.when}</code>],
          [words.selected, words.selectedOf(clusters)],
          all.value !== undefined &&
            all.value > clusters && [words.notSelected, words.notSelectedOf(all.value - clusters)],
          status !== undefined && status.forbidden > 0 && [words.forbidden, words.forbiddenOf(status.forbidden)],
          status !== undefined && status.conflicts > 0 && [words.column.conflicts, words.conflictsOf(status.conflicts)],
          status !== undefined && status.failing > 0 && [words.column.failing, words.failingOf(status.failing)],
        ]}
      />
      <p className={styles.note}>{words.othersNote}</p>
    </Card>
  );
}

const mostNames = 12;

function Template({ service: { spec } }: { service: GlobalService }) {
  const template = spec?.template;
  return (
    <Card title={words.template}>
      <Facts
        facts={[
          ...(template?.sources ?? []).slice(0, 4).map(
            (source, index) =>
              [
                words.source(index + 1, template?.sources.length ?? 1),
                <span key="source">
                  {source.repository} <code>{source.chart || source.path || "."}</code>{" "}
                  <span className={styles.quiet}>{source.ref?.selector.value ?? text.head}</span>
                </span>,
              ] as const,
          ),
          [text.column.namespace, <code key="namespace">{template?.namespace || "default"}</code>],
          (spec?.overrides.length ?? 0) > 0 && [
            words.overrides,
            <span key="overrides" className={styles.terms}>
              {spec?.overrides.map(({ name }) => (
                <Badge key={name} mono>
                  {name}
                </Badge>
              ))}
            </span>,
          ],
          [words.maxPercent, words.percent(spec?.removal?.maxPercent ?? 10)],
        ]}
      />
    </Card>
  );
}
