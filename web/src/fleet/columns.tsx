// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import { Reason } from "../gen/leat/errors/v1/reason_pb";
import type { FleetRow } from "../gen/leat/fleet/v1/query_pb";
import { ms } from "../hub/time.ts";
import { Age } from "../parts/age.tsx";
import type { Column } from "../parts/grid.tsx";
import { ExternalLink } from "../parts/link.tsx";
import { Phase } from "../parts/phase.tsx";
import { text } from "../text/en.ts";
import styles from "./columns.module.css";
import { CommitLink } from "./commit.tsx";
import { repositoryAt, splitService, versionAt } from "./refs.ts";

export { ms };

/** Returns a reason as documents write it, or "" if there is none. */
export const reasonName = (reason: Reason): string => (reason === Reason.UNSPECIFIED ? "" : (Reason[reason] ?? ""));

/** Reports whether a row is the last word of a cluster that is gone. The hub says so by the reason alone. */
export const isOldRow = (row: FleetRow): boolean => row.reason === Reason.AGENT_OFFLINE;

/** Why is a reason with its message: the name for those who know it, and the sentence for everybody. */
export function Why({ row }: { row: FleetRow }) {
  const reason = reasonName(row.reason);
  // A cell has room for a sentence. Its object has the rest.
  const message = row.message.slice(0, 500);
  if (reason === "" && message === "") return null;
  return (
    <span className={styles.why} title={message}>
      {reason !== "" && <code>{reason}</code>}
      {message}
    </span>
  );
}

const name = (
  to: "/services/$" | "/clusters/$" | "/repositories/$",
  label: (row: FleetRow) => string,
  // What a narrow screen shows beside the name, because it has no column for it.
  rest?: (row: FleetRow) => string,
): Column<FleetRow> => ({
  id: "name",
  title: text.column.name,
  width: "minmax(11rem, 1.6fr)",
  place: "title",
  order: "name",
  cell: (row) => (
    <>
      <Link to={to} params={{ _splat: row.ref }} tabIndex={-1} className={styles.name}>
        {label(row)}
      </Link>
      {rest && <span className={styles.rest}>{rest(row)}</span>}
    </>
  ),
});

const phase: Column<FleetRow> = {
  id: "phase",
  title: text.column.phase,
  width: "9rem",
  place: "state",
  order: "severity",
  cell: (row) => <Phase phase={row.phase} isOld={isOldRow(row) && row.cluster !== ""} />,
};

const why: Column<FleetRow> = {
  id: "reason",
  title: text.column.reason,
  width: "minmax(10rem, 3fr)",
  place: "note",
  cell: (row) => <Why row={row} />,
};

const since: Column<FleetRow> = {
  id: "since",
  title: text.column.since,
  width: "6rem",
  place: "end",
  order: "since",
  isNumber: true,
  cell: (row) => <Age at={ms(row.since)} />,
};

const healthy: Column<FleetRow> = {
  id: "healthy",
  title: text.column.healthy,
  width: "6.5rem",
  isNumber: true,
  cell: (row) => `${text.number(row.healthy)} / ${text.number(row.total)}`,
};

const cluster: Column<FleetRow> = {
  id: "cluster",
  title: text.column.cluster,
  width: "minmax(8rem, 1fr)",
  order: "cluster",
  cell: (row) => row.cluster,
};

/**
 * Commit is what the cluster has of a service's first source, and the newest of the source, where that is another one: the
 * service waits for a rollout, is paused or pinned, or is on its way. The hub leaves out the newest of a source that it
 * has never read, so which source the others are of is known only if none is left out.
 */
function Commit({ row }: { row: FleetRow }) {
  const has = row.appliedCommits[0] ?? "";
  const isWhole = row.commits.length === row.repositories.length;
  const newest = (isWhole || has === "" ? row.commits[0] : undefined) ?? "";
  const repository = repositoryAt(row, 0);
  return (
    <span className={styles.commit}>
      {has !== "" && (
        <CommitLink
          repository={repository}
          commit={has}
          version={row.appliedVersions[0]}
          title={row.appliedCommits.join(", ")}
          isInGrid
        />
      )}
      {newest !== "" && newest !== has && (
        <span className={styles.newest}>
          <span role="img" aria-label={text.newest}>
            →
          </span>
          <CommitLink
            repository={repository}
            commit={newest}
            version={versionAt(row, 0)}
            title={row.commits.join(", ")}
            isInGrid
          />
        </span>
      )}
    </span>
  );
}

export const serviceColumns: readonly Column<FleetRow>[] = [
  name(
    "/services/$",
    (row) => splitService(row.ref).name,
    (row) => `@${row.cluster}`,
  ),
  cluster,
  phase,
  why,
  {
    id: "commit",
    title: text.column.commit,
    width: "8.5rem",
    cell: (row) => <Commit row={row} />,
  },
  healthy,
  since,
];

/** The columns of a cluster's own services, which all have the same cluster. */
export const servicesOfClusterColumns: readonly Column<FleetRow>[] = [
  name("/services/$", (row) => splitService(row.ref).name),
  ...serviceColumns.slice(2),
];

export const clusterColumns: readonly Column<FleetRow>[] = [
  name("/clusters/$", (row) => row.ref),
  phase,
  {
    id: "labels",
    title: text.column.labels,
    width: "minmax(8rem, 2fr)",
    place: "note",
    cell: (row) => (
      <span className={styles.labels}>
        {Object.entries(row.labels)
          .map(([key, value]) => `${key}=${value}`)
          .join("  ")}
      </span>
    ),
  },
  { ...healthy, id: "services", title: text.column.services, width: "7rem" },
  { id: "version", title: text.column.version, width: "7rem", cell: (row) => row.versions[0] ?? "" },
  { id: "kubernetes", title: text.column.kubernetes, width: "7rem", cell: (row) => row.kubernetesVersion },
  {
    id: "seen",
    title: text.column.lastSeen,
    width: "6rem",
    place: "end",
    isNumber: true,
    cell: (row) => <Age at={ms(row.lastSeenAt)} />,
  },
];

export const repositoryColumns: readonly Column<FleetRow>[] = [
  name("/repositories/$", (row) => row.ref),
  phase,
  {
    id: "url",
    title: text.column.url,
    width: "minmax(12rem, 2fr)",
    place: "note",
    cell: (row) => <ExternalLink href={row.url} />,
  },
  { id: why.id, title: why.title, width: why.width, cell: why.cell },
  since,
];
