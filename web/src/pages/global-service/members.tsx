// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link, useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { shellQuote, shortCommit } from "../../fleet/refs.ts";
import { phaseSince } from "../../fleet/since.ts";
import { Reason } from "../../gen/leat/errors/v1/reason_pb";
import { type GlobalServiceMember, GlobalServiceService } from "../../gen/leat/fleet/v1/global_service_pb";
import { ServicePhase } from "../../gen/leat/type/v1/state_pb";
import { useAnswer } from "../../hub/answer.ts";
import { useHub } from "../../hub/hub.ts";
import { Age } from "../../parts/age.tsx";
import { type Column, Grid } from "../../parts/grid.tsx";
import { LiveState, Phase } from "../../parts/phase.tsx";
import { useNarrow } from "../../parts/rows.ts";
import { Empty, ErrorState, Skeleton } from "../../parts/states.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

const words = delivery.globalService;
const pageSize = 100;

const problemOf = ({ problem, service }: GlobalServiceMember) => problem ?? service?.status?.problem;

const columns: readonly Column<GlobalServiceMember>[] = [
  {
    id: "cluster",
    title: text.column.cluster,
    width: "minmax(8rem, 1.2fr)",
    place: "title",
    cell: ({ cluster }) => (
      <Link to="/clusters/$" params={{ _splat: cluster }} tabIndex={-1} className={styles.name}>
        {cluster}
      </Link>
    ),
  },
  {
    id: "phase",
    title: text.column.phase,
    width: "9rem",
    place: "state",
    cell: ({ service, held }) =>
      held ? (
        <LiveState tone="warn" icon="person">
          {words.states.held}
        </LiveState>
      ) : (
        service && (
          <Phase
            phase={ServicePhase[service.status?.phase ?? 0] ?? "UNKNOWN"}
            isOld={service.status?.problem?.reason === Reason.AGENT_OFFLINE}
          />
        )
      ),
  },
  {
    id: "matched",
    title: words.column.matched,
    width: "minmax(7rem, 1fr)",
    cell: ({ matched }) => text.list(matched.split("+").map((word) => words.matched[word] ?? word)),
  },
  {
    id: "overrides",
    title: words.overrides,
    width: "minmax(6rem, 1fr)",
    cell: ({ overrides }) => overrides.join(", "),
  },
  {
    id: "commit",
    title: text.column.commit,
    width: "6rem",
    cell: ({ service }) => {
      const snapshot = service?.status?.sources.find((source) => source.snapshot)?.snapshot;
      return snapshot && <code title={snapshot.commit}>{snapshot.version || shortCommit(snapshot.commit)}</code>;
    },
  },
  {
    id: "why",
    title: text.column.reason,
    width: "minmax(10rem, 2.4fr)",
    place: "note",
    cell: (member) => {
      const problem = problemOf(member);
      return (
        problem && (
          <span title={problem.message.slice(0, 2000)}>
            <code>{reasonName(problem.reason)}</code> {problem.message.slice(0, 500)}
          </span>
        )
      );
    },
  },
  {
    id: "since",
    title: text.column.since,
    width: "5rem",
    place: "end",
    isNumber: true,
    cell: (member) => <Age at={ms(member.problem?.since) ?? phaseSince(member.service?.status)} />,
  },
];

/** Members are the clusters that a global service selects, a page of them at a time. */
export function Members({ name, after, version }: { name: string; after: string | undefined; version: string }) {
  const hub = useHub();
  const navigate = useNavigate();
  const { value, failure, link, retry } = useAnswer(
    `members ${name} ${after}`,
    version,
    (signal) =>
      hub
        .call(GlobalServiceService)
        .listGlobalServiceMembers({ name, page: { size: pageSize, token: after ?? "" } }, { signal }),
    hub.surroundings,
  );
  const members = value?.members ?? [];
  const row = useCallback((index: number) => value?.members[index], [value]);
  const isNarrow = useNarrow();
  const command = `leat get globalservice ${shellQuote(name)} --members`;
  const open = (member: GlobalServiceMember) => {
    const own = member.service?.metadata?.name;
    if (own) void navigate({ to: "/services/$", params: { _splat: `${name}@${member.cluster}` } });
    else void navigate({ to: "/clusters/$", params: { _splat: member.cluster } });
  };
  return (
    <section className={styles.members}>
      <h2>{words.members}</h2>
      {failure && (!value || link === "stopped") ? (
        <ErrorState failure={failure} onRetry={retry} command={command} />
      ) : !value ? (
        <Skeleton lines={8} />
      ) : members.length === 0 ? (
        <div className={styles.rows}>
          <Empty icon="cluster" title={words.noMembers}>
            <p>{words.noMembersBody}</p>
          </Empty>
        </div>
      ) : (
        <div
          className={styles.rows}
          style={{ blockSize: `min(36rem, ${members.length * (isNarrow ? 64 : 36) + (isNarrow ? 2 : 40)}px)` }}
        >
          <Grid
            key={after ?? ""}
            label={words.members}
            columns={columns}
            count={members.length}
            row={row}
            rowKey={({ cluster }) => cluster}
            onOpen={open}
          />
        </div>
      )}
      {(after || value?.nextPageToken) && (
        <nav className={styles.pages} aria-label={delivery.pagesOf(words.members)}>
          {after && (
            <Link to="/global-services/$" params={{ _splat: name }} activeOptions={{ exact: true }}>
              {delivery.firstPage}
            </Link>
          )}
          {value?.nextPageToken && (
            <Link to="/global-services/$" params={{ _splat: name }} search={{ after: value.nextPageToken }}>
              {delivery.nextPage}
            </Link>
          )}
        </nav>
      )}
    </section>
  );
}
