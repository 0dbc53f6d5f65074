// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { objectPage, shellQuote } from "../../fleet/refs.ts";
import {
  FleetSourceAction,
  type FleetSourceDocument,
  FleetSourceService,
} from "../../gen/leat/fleet/v1/fleet_source_pb";
import { useAnswer } from "../../hub/answer.ts";
import { useHub } from "../../hub/hub.ts";
import { type Column, Grid } from "../../parts/grid.tsx";
import type { IconName } from "../../parts/icon.tsx";
import { LiveState, type Tone } from "../../parts/phase.tsx";
import { useNarrow } from "../../parts/rows.ts";
import { Empty, ErrorState, Skeleton } from "../../parts/states.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

const words = delivery.fleetSource;
const pageSize = 100;

const looks: Record<FleetSourceAction, { tone: Tone; icon: IconName }> = {
  [FleetSourceAction.UNSPECIFIED]: { tone: "idle", icon: "unknown" },
  [FleetSourceAction.UNCHANGED]: { tone: "ok", icon: "check" },
  [FleetSourceAction.CREATED]: { tone: "progress", icon: "check" },
  [FleetSourceAction.CONFIGURED]: { tone: "progress", icon: "half" },
  [FleetSourceAction.REMOVED]: { tone: "warn", icon: "close" },
  [FleetSourceAction.HELD]: { tone: "warn", icon: "person" },
  [FleetSourceAction.KEPT]: { tone: "idle", icon: "lock" },
  [FleetSourceAction.CONFLICT]: { tone: "degraded", icon: "alert" },
  [FleetSourceAction.FAILED]: { tone: "bad", icon: "cross" },
};

/** ObjectName is an object of a document, with its kind. It leads to the object's page, if there is one. */
function ObjectName({ document: { kind, name, action } }: { document: FleetSourceDocument }) {
  const to = objectPage(kind);
  const isThere = action !== FleetSourceAction.REMOVED && action !== FleetSourceAction.FAILED;
  return (
    <>
      {kind !== "" && <span className={styles.kind}>{kind.toLowerCase()}/</span>}
      {to && isThere ? (
        <Link to={to} params={{ _splat: name }} tabIndex={-1}>
          {name}
        </Link>
      ) : (
        name
      )}
    </>
  );
}

const columnsOf = (isDryRun: boolean, isNarrow: boolean): readonly Column<FleetSourceDocument>[] => [
  {
    id: "object",
    title: words.object,
    width: "minmax(11rem, 1.5fr)",
    place: "title",
    cell: (document) => (document.kind === "" ? document.position : <ObjectName document={document} />),
  },
  {
    id: "action",
    title: words.action,
    width: "10rem",
    place: "state",
    cell: ({ action }) => (
      <LiveState {...looks[action]}>
        {(isDryRun && words.wouldActions[action]) || words.actions[action] || text.phase.UNKNOWN}
      </LiveState>
    ),
  },
  {
    id: "position",
    title: words.position,
    width: "minmax(9rem, 1.4fr)",
    cell: ({ position }) =>
      position === "" ? <span className={styles.quiet}>{words.gone}</span> : <code>{position}</code>,
  },
  {
    id: "message",
    title: text.column.message,
    width: "minmax(10rem, 2.4fr)",
    place: "note",
    // A narrow screen has no column for the document.
    cell: ({ message, position }) => (
      <span title={message.slice(0, 2000)}>{message.slice(0, 500) || (isNarrow && position)}</span>
    ),
  },
];

/** Documents are what became of each document at the latest look, problems first, a page of them at a time. */
export function Documents({
  name,
  after,
  version,
  isDryRun,
}: {
  name: string;
  after: string | undefined;
  version: string;
  isDryRun: boolean;
}) {
  const hub = useHub();
  const { value, failure, link, retry } = useAnswer(
    `documents ${name} ${after}`,
    version,
    (signal) =>
      hub
        .call(FleetSourceService)
        .listFleetSourceDocuments({ name, page: { size: pageSize, token: after ?? "" } }, { signal }),
    hub.surroundings,
  );
  const row = useCallback((index: number) => value?.documents[index], [value]);
  const isNarrow = useNarrow();
  const columns = useMemo(() => columnsOf(isDryRun, isNarrow), [isDryRun, isNarrow]);
  const documents = value?.documents ?? [];
  return (
    <section className={styles.documents}>
      <h2>{words.documents}</h2>
      {failure && (!value || link === "stopped") ? (
        <ErrorState failure={failure} onRetry={retry} command={`leat fleetsource status ${shellQuote(name)}`} />
      ) : !value ? (
        <Skeleton lines={8} />
      ) : documents.length === 0 ? (
        <div className={styles.rows}>
          <Empty icon="folder" title={words.noDocuments}>
            <p>{words.noDocumentsBody}</p>
          </Empty>
        </div>
      ) : (
        <div
          className={styles.rows}
          style={{ blockSize: `min(36rem, ${documents.length * (isNarrow ? 64 : 36) + (isNarrow ? 2 : 40)}px)` }}
        >
          <Grid
            key={after ?? ""}
            label={words.documents}
            columns={columns}
            count={documents.length}
            row={row}
            rowKey={({ position, kind, name }) => `${position} ${kind} ${name}`}
          />
        </div>
      )}
      {(after || value?.nextPageToken) && (
        <nav className={styles.pages} aria-label={delivery.pagesOf(words.documents)}>
          {after && (
            <Link to="/fleet-sources/$" params={{ _splat: name }} activeOptions={{ exact: true }}>
              {delivery.firstPage}
            </Link>
          )}
          {value?.nextPageToken && (
            <Link to="/fleet-sources/$" params={{ _splat: name }} search={{ after: value.nextPageToken }}>
              {delivery.nextPage}
            </Link>
          )}
        </nav>
      )}
    </section>
  );
}
