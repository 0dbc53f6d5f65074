// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ms, Why } from "../../fleet/columns.tsx";
import { CommitLink } from "../../fleet/commit.tsx";
import { ObjectList } from "../../fleet/objects.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { refIn } from "../../fleet/refs.ts";
import { lookOf, SourceState } from "../../fleet/sources.tsx";
import type { FleetSource } from "../../gen/leat/fleet/v1/fleet_source_pb";
import type { FleetRow } from "../../gen/leat/fleet/v1/query_pb";
import { splitRef } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import type { Column } from "../../parts/grid.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

const route = getRouteApi("/fleet-sources/");
const words = delivery.fleetSource;

interface Entry {
  row: FleetRow;
  source: FleetSource;
}

function read(row: FleetRow): Entry | undefined {
  const object = row.document?.object;
  return object?.case === "fleetSource" ? { row, source: object.value } : undefined;
}

const tones = ["bad", "warn", "degraded", "progress", "idle", "ok"];

const compare = (a: Entry, b: Entry): number =>
  tones.indexOf(lookOf(a.source).tone) - tones.indexOf(lookOf(b.source).tone) || (a.row.ref < b.row.ref ? -1 : 1);

const columns: readonly Column<Entry>[] = [
  {
    id: "name",
    title: text.column.name,
    width: "minmax(8rem, 1.2fr)",
    place: "title",
    cell: ({ row }) => (
      <Link to="/fleet-sources/$" params={{ _splat: row.ref }} tabIndex={-1} className={styles.name}>
        {row.ref}
      </Link>
    ),
  },
  {
    id: "state",
    title: text.column.phase,
    width: "11rem",
    place: "state",
    cell: ({ source }) => <SourceState source={source} />,
  },
  {
    id: "repository",
    title: text.column.repository,
    width: "minmax(7rem, 1fr)",
    cell: ({ source }) => source.spec?.source?.repository,
  },
  {
    id: "commit",
    title: text.column.commit,
    width: "6rem",
    cell: ({ row, source }) =>
      source.status?.commit && (
        <CommitLink
          repository={refIn(splitRef(row.ref).project, source.spec?.source?.repository ?? "")}
          commit={source.status.commit}
          isInGrid
        />
      ),
  },
  {
    id: "documents",
    title: words.column.documents,
    width: "6.5rem",
    isNumber: true,
    cell: ({ source }) => text.number(source.status?.documents ?? 0),
  },
  {
    id: "failed",
    title: words.column.failed,
    width: "4.5rem",
    isNumber: true,
    cell: ({ source }) => (source.status?.failed ?? 0) > 0 && text.number(source.status?.failed ?? 0),
  },
  {
    id: "held",
    title: words.column.held,
    width: "4.5rem",
    isNumber: true,
    cell: ({ source }) => (source.status?.held ?? 0) > 0 && text.number(source.status?.held ?? 0),
  },
  {
    id: "reason",
    title: text.column.reason,
    width: "minmax(9rem, 2fr)",
    place: "note",
    cell: ({ row }) => <Why row={row} />,
  },
  {
    id: "equal",
    title: words.column.equal,
    width: "5rem",
    place: "end",
    isNumber: true,
    cell: ({ source }) => <Age at={ms(source.status?.succeededAt)} />,
  },
];

/** FleetSourcesPage is every fleet source: those with problems, and those that wait for a person, first. */
export function FleetSourcesPage() {
  useTitle(text.fleetSources);
  const { filter = "" } = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.fleetSources}>
      <ObjectList
        kind="FleetSource"
        noun="fleetsources"
        filter={filter}
        onFilter={(next) => void navigate({ to: "/fleet-sources", search: next === "" ? {} : { filter: next } })}
        read={read}
        compare={compare}
        columns={columns}
        entryKey={({ row }) => row.ref}
        onOpen={({ row }) => void navigate({ to: "/fleet-sources/$", params: { _splat: row.ref } })}
        empty={
          <Empty icon="folder" title={words.none}>
            <p>{words.noneBody}</p>
            <Command>leat apply -f bootstrap.yaml</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}
