// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ms, Why } from "../../fleet/columns.tsx";
import { GlobalState } from "../../fleet/globals.tsx";
import { ObjectList } from "../../fleet/objects.tsx";
import { ListPage } from "../../fleet/page.tsx";
import type { GlobalServiceStatus } from "../../gen/leat/fleet/v1/global_service_pb";
import type { FleetRow } from "../../gen/leat/fleet/v1/query_pb";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import type { Column } from "../../parts/grid.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

const route = getRouteApi("/global-services/");

interface Entry {
  row: FleetRow;
  status: GlobalServiceStatus | undefined;
  overrides: number;
}

function read(row: FleetRow): Entry | undefined {
  const object = row.document?.object;
  if (object?.case !== "globalService") return undefined;
  const { status, spec } = object.value;
  return { row, status, overrides: spec?.overrides.length ?? 0 };
}

/** Returns how many clusters of a global service want a person. */
const trouble = ({ status }: Entry): number =>
  status ? status.unhealthy + status.conflicts + status.failing + status.held + (status.problem ? 1 : 0) : 0;

const compare = (a: Entry, b: Entry): number =>
  Number(trouble(b) > 0) - Number(trouble(a) > 0) || (a.row.ref < b.row.ref ? -1 : 1);

const words = delivery.globalService;

const count = (id: string, title: string, of: (status: GlobalServiceStatus) => number): Column<Entry> => ({
  id,
  title,
  width: "5.5rem",
  isNumber: true,
  cell: ({ status }) => {
    const n = status ? of(status) : 0;
    return n > 0 && text.number(n);
  },
});

const columns: readonly Column<Entry>[] = [
  {
    id: "name",
    title: text.column.name,
    width: "minmax(9rem, 1.4fr)",
    place: "title",
    cell: ({ row }) => (
      <Link to="/global-services/$" params={{ _splat: row.ref }} tabIndex={-1} className={styles.name}>
        {row.ref}
      </Link>
    ),
  },
  {
    id: "state",
    title: text.column.phase,
    width: "10rem",
    place: "state",
    cell: ({ status }) => <GlobalState status={status} />,
  },
  {
    id: "healthy",
    title: text.column.healthy,
    width: "7rem",
    isNumber: true,
    cell: ({ status }) => words.healthyOf(status?.healthy ?? 0, status?.clusters ?? 0),
  },
  count("unhealthy", words.column.unhealthy, (status) => status.unhealthy),
  count("conflicts", words.column.conflicts, (status) => status.conflicts),
  count("failing", words.column.failing, (status) => status.failing),
  count("held", words.column.held, (status) => status.held),
  {
    id: "reason",
    title: text.column.reason,
    width: "minmax(10rem, 2fr)",
    place: "note",
    cell: ({ row }) => <Why row={row} />,
  },
  {
    id: "since",
    title: text.column.since,
    width: "5rem",
    place: "end",
    isNumber: true,
    cell: ({ row }) => <Age at={ms(row.since)} />,
  },
];

/** GlobalServicesPage is every global service: those with clusters that want a person first. */
export function GlobalServicesPage() {
  useTitle(text.globalServices);
  const { filter = "" } = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.globalServices}>
      <ObjectList
        kind="GlobalService"
        noun="globalservices"
        filter={filter}
        onFilter={(next) => void navigate({ to: "/global-services", search: next === "" ? {} : { filter: next } })}
        read={read}
        compare={compare}
        columns={columns}
        entryKey={({ row }) => row.ref}
        onOpen={({ row }) => void navigate({ to: "/global-services/$", params: { _splat: row.ref } })}
        empty={
          <Empty icon="global" title={words.none}>
            <p>{words.noneBody}</p>
            <Command>leat apply -f globalservice.yaml</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}
