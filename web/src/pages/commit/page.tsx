// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Changes } from "../../fleet/changes.tsx";
import { isOldRow, serviceColumns } from "../../fleet/columns.tsx";
import { FleetList } from "../../fleet/list.tsx";
import { Card, ListSection, Page } from "../../fleet/page.tsx";
import { shortCommit, splitCommit } from "../../fleet/refs.ts";
import { useHub } from "../../hub/hub.ts";
import { countsOf, listSource, type Query, type Window } from "../../hub/list.ts";
import { useLive } from "../../hub/live.ts";
import { Command } from "../../parts/command.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import type { ListSearch } from "../../shell/router.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import { Arrival } from "./arrival.tsx";
import styles from "./page.module.css";

const route = getRouteApi("/commits/$");

/** CommitPage is one commit: how many services it has reached, where it failed, and where it is on its way. */
export function CommitPage() {
  const { _splat: ref = "" } = route.useParams();
  const { repository, commit } = splitCommit(ref);
  useTitle(text.commitOf(shortCommit(commit), repository));
  // What is no commit may be a term of the filter's language, which the address must not choose.
  if (!/^(sha256:)?[0-9a-f]{4,64}$/.test(commit) || !/^[a-z0-9./-]+$/.test(repository)) {
    return (
      <ErrorState failure={{ kind: "missing", reason: "", message: "", metadata: {} }} command="leat get services" />
    );
  }
  return <Shown key={ref} address={ref} repository={repository} commit={commit} />;
}

function Shown({ address, repository, commit }: { address: string; repository: string; commit: string }) {
  const hub = useHub();
  const search = route.useSearch();
  const navigate = useNavigate();
  const scope = `repository=${repository} commit="${commit}"`;
  const query: Query = {
    kind: "Service",
    filter: scope,
    groupBy: ["applied", "desired", "phase", "reason"],
    arrivalOf: commit,
  };
  const { value, failure, link, store } = useLive(
    `commit ${address}`,
    () => listSource(hub.query, query, { offset: 0, size: 1 }),
    hub.surroundings,
  );
  // The address may have the beginning of it.
  const full = ["applied", "desired"]
    .flatMap((field) => countsOf(value?.groups ?? [], field))
    .find(({ phase }) => phase.startsWith(commit))?.phase;
  return (
    <Page>
      <div className={styles.head}>
        <nav className={styles.crumbs} aria-label={text.repositories}>
          <Icon name="chevron" />
          <Link to="/repositories/$" params={{ _splat: repository }}>
            {repository}
          </Link>
        </nav>
        <h1>{text.commitOf(shortCommit(commit), repository)}</h1>
        <Command isText>{commit}</Command>
        {full && !full.startsWith("sha256:") && value?.rows[0] && <Changes service={value.rows[0].ref} commit={full} />}
      </div>
      {value?.total !== 0 && (
        <Card title={delivery.commit.reach.title}>
          {link === "reconnecting" && value && (
            <div className={styles.notice}>
              <Notice tone="warn" icon="offline" title={text.linkTitle.reconnecting} />
            </div>
          )}
          {value ? (
            <Reach window={value} address={address} commit={commit} search={search} />
          ) : failure ? (
            <ErrorState failure={failure} onRetry={store.retry} />
          ) : (
            <Skeleton lines={3} />
          )}
        </Card>
      )}
      {value?.arrival && (
        <Arrival
          arrival={value.arrival}
          command={`leat get services -A --repository ${repository} --commit ${commit}`}
        />
      )}
      <ListSection title={text.services}>
        <FleetList
          kind="Service"
          noun="services"
          scope={scope}
          // The worst first: a commit that is everywhere and healthy needs no list.
          orderOf="severity"
          search={search}
          onSearch={(next) => void navigate({ to: "/commits/$", params: { _splat: address }, search: next })}
          columns={serviceColumns}
          isOld={isOldRow}
          empty={
            <Empty icon="search" title={delivery.commit.nowhere}>
              <p>{delivery.commit.nowhereBody}</p>
            </Empty>
          }
        />
      </ListSection>
    </Page>
  );
}

/** Returns how many services have the commit among the values of a field. A short commit begins exactly one of them. */
const countOf = (window: Window, field: string, commit: string): number =>
  countsOf(window.groups, field).find(({ phase }) => phase.startsWith(commit))?.count ?? 0;

/** Reach is how far the commit has come, with links to the services that it has not reached, and to those that failed. */
function Reach({
  window,
  address,
  commit,
  search,
}: {
  window: Window;
  address: string;
  commit: string;
  search: ListSearch;
}) {
  const { total } = window;
  const has = countOf(window, "applied", commit);
  const waiting = total - has;
  const left = total - countOf(window, "desired", commit);
  const phases = countsOf(window.groups, "phase");
  const inPhase = (...wanted: string[]) =>
    phases.reduce((sum, { phase, count }) => (wanted.includes(phase) ? sum + count : sum), 0);
  const failed = inPhase("FAILED", "DEGRADED");
  const parts: [count: number, label: string, search: ListSearch][] = [
    [inPhase("HEALTHY"), delivery.commit.reach.healthy, { phase: "HEALTHY" }],
    [failed, delivery.commit.reach.failed, { phase: "FAILED,DEGRADED" }],
    [waiting, delivery.commit.reach.waiting, { filter: `applied!="${commit}"`, order: "-since" }],
    [left, delivery.commit.reach.left, { filter: `desired!="${commit}"` }],
  ];
  const reasons = countsOf(window.groups, "reason").slice(0, 3);
  return (
    <div className={styles.body}>
      <p className={styles.answer}>{delivery.commit.reach.has(has, total)}</p>
      <div className={styles.bar} aria-hidden="true">
        <span style={{ inlineSize: `${(100 * has) / total}%` }} />
      </div>
      <ul className={styles.parts}>
        {parts.map(([count, label, next]) => (
          <li key={label}>
            <Link to="/commits/$" params={{ _splat: address }} search={next} aria-current={isSame(search, next)}>
              <strong>{text.number(count)}</strong> {label}
            </Link>
          </li>
        ))}
      </ul>
      {reasons.length > 0 && (
        <p className={styles.reasons}>
          {delivery.commit.reach.reasons}
          {reasons.map(({ phase: reason, count }) => (
            <Link key={reason} to="/commits/$" params={{ _splat: address }} search={{ filter: `reason=${reason}` }}>
              <code>{reason}</code> {text.number(count)}
            </Link>
          ))}
        </p>
      )}
    </div>
  );
}

const isSame = (a: ListSearch, b: ListSearch) => a.filter === b.filter && a.phase === b.phase;
