// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { BackendState, kindOf, lookOf } from "../../fleet/backends.tsx";
import { ms, Why } from "../../fleet/columns.tsx";
import { ObjectList } from "../../fleet/objects.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { Views } from "../../fleet/views.tsx";
import type { ConfigBackend } from "../../gen/leat/fleet/v1/config_backend_pb";
import type { ConfigSet } from "../../gen/leat/fleet/v1/config_set_pb";
import type { FleetRow } from "../../gen/leat/fleet/v1/query_pb";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import type { Column } from "../../parts/grid.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { govern } from "../../text/govern.ts";
import styles from "./page.module.css";

const route = getRouteApi("/configuration/");
const words = govern.configuration;

interface SetEntry {
  ref: string;
  set: ConfigSet;
}

interface BackendEntry {
  row: FleetRow;
  backend: ConfigBackend;
}

function readSet(row: FleetRow): SetEntry | undefined {
  const object = row.document?.object;
  return object?.case === "configSet" ? { ref: row.ref, set: object.value } : undefined;
}

function readBackend(row: FleetRow): BackendEntry | undefined {
  const object = row.document?.object;
  return object?.case === "configBackend" ? { row, backend: object.value } : undefined;
}

const compareSets = (a: SetEntry, b: SetEntry): number => (a.ref < b.ref ? -1 : 1);

const tones = ["bad", "warn", "degraded", "progress", "idle", "ok"];

const compareBackends = (a: BackendEntry, b: BackendEntry): number =>
  tones.indexOf(lookOf(a.backend).tone) - tones.indexOf(lookOf(b.backend).tone) || (a.row.ref < b.row.ref ? -1 : 1);

const counted = (id: string, title: string, of: (entry: SetEntry) => number): Column<SetEntry> => ({
  id,
  title,
  width: "6.5rem",
  isNumber: true,
  cell: (entry) => text.number(of(entry)),
});

const entriesOf = (map: Record<string, string> | undefined): number => Object.keys(map ?? {}).length;

const setColumns: readonly Column<SetEntry>[] = [
  {
    id: "name",
    title: text.column.name,
    width: "minmax(8rem, 1.2fr)",
    place: "title",
    cell: ({ ref }) => (
      <Link to="/configuration/sets/$" params={{ _splat: ref }} tabIndex={-1} className={styles.name}>
        {ref}
      </Link>
    ),
  },
  counted("values", words.column.keys, ({ set }) => entriesOf(set.spec?.config?.values)),
  counted("secrets", words.column.secrets, ({ set }) => entriesOf(set.spec?.config?.secrets)),
  counted("references", words.column.references, ({ set }) => entriesOf(set.spec?.config?.references)),
  {
    id: "description",
    title: govern.project.column.description,
    width: "minmax(9rem, 2fr)",
    place: "note",
    cell: ({ set }) => <span title={set.spec?.description}>{set.spec?.description}</span>,
  },
];

const backendColumns: readonly Column<BackendEntry>[] = [
  {
    id: "name",
    title: text.column.name,
    width: "minmax(8rem, 1.2fr)",
    place: "title",
    cell: ({ row }) => (
      <Link to="/configuration/backends/$" params={{ _splat: row.ref }} tabIndex={-1} className={styles.name}>
        {row.ref}
      </Link>
    ),
  },
  {
    id: "state",
    title: text.column.phase,
    width: "9rem",
    place: "state",
    cell: ({ backend }) => <BackendState backend={backend} />,
  },
  { id: "kind", title: words.column.kind, width: "minmax(8rem, 1fr)", cell: ({ backend }) => kindOf(backend) },
  {
    id: "entries",
    title: words.column.entries,
    width: "5rem",
    isNumber: true,
    cell: ({ backend }) => text.number(backend.status?.entries ?? 0),
  },
  {
    id: "failing",
    title: words.column.failing,
    width: "5rem",
    isNumber: true,
    cell: ({ backend }) => (backend.status?.failing ?? 0) > 0 && text.number(backend.status?.failing ?? 0),
  },
  {
    id: "reason",
    title: text.column.reason,
    width: "minmax(9rem, 2fr)",
    place: "note",
    cell: ({ row }) => <Why row={row} />,
  },
  {
    id: "read",
    title: words.column.read,
    width: "5rem",
    place: "end",
    isNumber: true,
    cell: ({ backend }) => <Age at={ms(backend.status?.readTime)} />,
  },
];

/** ConfigurationPage is the sets that services share, and the back ends from which the hub reads values. */
export function ConfigurationPage() {
  useTitle(text.configuration);
  const { filter = "", show } = route.useSearch();
  const navigate = useNavigate();
  const isBackends = show === "backends";
  const onFilter = (next: string) =>
    void navigate({
      to: "/configuration",
      search: { ...(isBackends && { show }), ...(next !== "" && { filter: next }) },
    });
  return (
    <ListPage title={text.configuration} lead={<Kinds isBackends={isBackends} />}>
      {isBackends ? (
        <ObjectList
          key="backends"
          kind="ConfigBackend"
          noun="configbackends"
          filter={filter}
          onFilter={onFilter}
          read={readBackend}
          compare={compareBackends}
          columns={backendColumns}
          entryKey={({ row }) => row.ref}
          onOpen={({ row }) => void navigate({ to: "/configuration/backends/$", params: { _splat: row.ref } })}
          empty={
            <Empty icon="key" title={words.noBackends}>
              <p>{words.noBackendsBody}</p>
              <Command>leat apply -f vault.yaml</Command>
            </Empty>
          }
        />
      ) : (
        <ObjectList
          key="sets"
          kind="ConfigSet"
          noun="configsets"
          filter={filter}
          onFilter={onFilter}
          read={readSet}
          compare={compareSets}
          columns={setColumns}
          entryKey={({ ref }) => ref}
          onOpen={({ ref }) => void navigate({ to: "/configuration/sets/$", params: { _splat: ref } })}
          empty={
            <Empty icon="folder" title={words.noSets}>
              <p>{words.noSetsBody}</p>
              <Command>leat apply -f sets.yaml</Command>
            </Empty>
          }
        />
      )}
    </ListPage>
  );
}

/** Kinds are the two things that configuration is made of. */
function Kinds({ isBackends }: { isBackends: boolean }) {
  return (
    <Views label={words.kind}>
      <Link
        to="/configuration"
        search={{}}
        activeOptions={{ exact: true }}
        aria-current={isBackends ? undefined : "true"}
      >
        {words.sets}
      </Link>
      <Link
        to="/configuration"
        search={{ show: "backends" }}
        activeOptions={{ exact: true }}
        aria-current={isBackends ? "true" : undefined}
      >
        {words.backends}
      </Link>
    </Views>
  );
}
