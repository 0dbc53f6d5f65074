// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi } from "@tanstack/react-router";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { CommitLink } from "../../fleet/commit.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { refIn, shellQuote } from "../../fleet/refs.ts";
import { isSuspended, lookOf, SourceState } from "../../fleet/sources.tsx";
import { Reason } from "../../gen/leat/errors/v1/reason_pb";
import type { FleetSource } from "../../gen/leat/fleet/v1/fleet_source_pb";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, useLive } from "../../hub/live.ts";
import { rowSource, splitRef } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { condition } from "../../text/condition.ts";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import { SourceActions } from "./actions.tsx";
import { Documents } from "./documents.tsx";
import styles from "./page.module.css";

const route = getRouteApi("/fleet-sources/$");
const words = delivery.fleetSource;

/** FleetSourcePage is one fleet source: what waits for a person, what the latest look found, and each document. */
export function FleetSourcePage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `fleet source ${ref}`,
    () => rowSource(hub, "FleetSource", ref),
    hub.surroundings,
  );
  useTitle(ref);
  if (failure && (!value || link === "stopped")) {
    return (
      <ErrorState failure={failure} onRetry={store.retry} command={`leat fleetsource status ${shellQuote(ref)}`} />
    );
  }
  if (link === "loading") return <Skeleton lines={8} />;
  const object = value?.document?.object;
  if (object?.case !== "fleetSource") {
    return (
      <ErrorState
        failure={{ kind: "missing", reason: "", message: "", metadata: {} }}
        command="leat get fleetsources"
      />
    );
  }
  return <Shown name={ref} source={object.value} since={ms(value?.since)} link={link} />;
}

/** Returns a text that differs with each look, so that the documents are read again then. */
const versionOf = ({ status }: FleetSource): string =>
  [status?.commit, ms(status?.lookedAt), status?.heldDigest, status?.failed, status?.pending].join();

function Shown({
  name,
  source,
  since,
  link,
}: {
  name: string;
  source: FleetSource;
  since: number | undefined;
  link: LinkState;
}) {
  const { after } = route.useSearch();
  const { spec, status } = source;
  const held = status?.held ?? 0;
  const { problem } = status ?? {};
  const isHeldProblem = problem?.reason === Reason.FLEET_SOURCE_HELD && held > 0;
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/fleet-sources", title: text.fleetSources }}
        name={name}
        phase=""
        state={{ show: <SourceState source={source} />, tone: lookOf(source).tone }}
        since={ms(problem?.since) ?? since ?? ms(status?.lookedAt)}
        link={link}
        // The notice below says what the problem of held removals does, and what to do.
        problem={
          problem && !isHeldProblem ? { reason: reasonName(problem.reason), message: problem.message } : undefined
        }
        facts={
          <>
            {spec?.dryRun && <Badge>{words.dryRun}</Badge>}
            {isSuspended(source) && <Badge>{words.suspended}</Badge>}
          </>
        }
        actions={<SourceActions name={name} source={source} />}
        command={`leat fleetsource status ${shellQuote(name)}`}
      />
      {held > 0 && (
        <Notice tone="warn" icon="person" title={words.heldTitle(held)}>
          <p>{words.heldBody}</p>
        </Notice>
      )}
      {status !== undefined && status.pending > 0 && (
        <Notice tone="progress" icon="info" title={words.pendingTitle(status.pending)}>
          <p>{words.pendingBody}</p>
        </Notice>
      )}
      {isSuspended(source) && (
        <Notice tone="idle" icon="pause" title={words.suspendedTitle}>
          {spec?.suspendedUntil && (
            <p>
              {words.suspendedUntil} <Age at={ms(spec.suspendedUntil)} />
            </p>
          )}
        </Notice>
      )}
      {spec?.description && <p>{spec.description}</p>}
      <div className={styles.cards}>
        <Look name={name} source={source} />
        <Scope source={source} />
      </div>
      <Documents name={name} after={after} version={versionOf(source)} isDryRun={spec?.dryRun === true} />
    </Page>
  );
}

function Look({ name, source: { spec, status } }: { name: string; source: FleetSource }) {
  const repository = spec?.source?.repository ?? "";
  return (
    <Card title={words.look}>
      <Facts
        facts={[
          [
            words.commit,
            status?.commit ? (
              <CommitLink key="commit" repository={refIn(splitRef(name).project, repository)} commit={status.commit} />
            ) : (
              text.none
            ),
          ],
          [words.looked, status?.lookedAt ? <Age key="looked" at={ms(status.lookedAt)} /> : condition.never],
          [words.equalSince, status?.succeededAt ? <Age key="equal" at={ms(status.succeededAt)} /> : condition.never],
          [words.counts, words.countsOf(status?.documents ?? 0, status?.managed ?? 0)],
          status !== undefined && status.failed > 0 && [words.column.failed, words.failedOf(status.failed)],
        ]}
      />
    </Card>
  );
}

function Scope({ source: { spec } }: { source: FleetSource }) {
  const interval = spec?.interval ? Number(spec.interval.seconds) : 300;
  const projects = spec?.projects ?? [];
  return (
    <Card title={words.spec}>
      <Facts
        facts={[
          [
            words.follows,
            <span key="source">
              {spec?.source?.repository} <code>{spec?.source?.ref?.selector.value ?? text.head}</code>
            </span>,
          ],
          [words.folder, <code key="folder">{spec?.source?.path || "."}</code>],
          [words.role, words.roles[spec?.role ?? 0] ?? text.phase.UNKNOWN],
          [words.scope, spec?.hub ? words.wholeHub : projects.length > 0 ? text.list(projects) : words.ownProject],
          [words.prune, spec?.prune === false ? words.pruneNever : words.pruneUpTo(spec?.pruneLimit || 10)],
          [words.interval, text.span(interval)],
        ]}
      />
    </Card>
  );
}
