// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ms, Why } from "../../fleet/columns.tsx";
import { ImageState, lookOf } from "../../fleet/images.tsx";
import { ObjectList } from "../../fleet/objects.tsx";
import { ListPage } from "../../fleet/page.tsx";
import type { ImagePolicy } from "../../gen/leat/fleet/v1/image_policy_pb";
import type { FleetRow } from "../../gen/leat/fleet/v1/query_pb";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import type { Column } from "../../parts/grid.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { images as words } from "../../text/images.ts";
import styles from "./page.module.css";

const route = getRouteApi("/image-policies/");

interface Entry {
  row: FleetRow;
  policy: ImagePolicy;
}

function read(row: FleetRow): Entry | undefined {
  const object = row.document?.object;
  return object?.case === "imagePolicy" ? { row, policy: object.value } : undefined;
}

const tones = ["bad", "warn", "idle", "ok"];

const compare = (a: Entry, b: Entry): number =>
  tones.indexOf(lookOf(a.policy).tone) - tones.indexOf(lookOf(b.policy).tone) || (a.row.ref < b.row.ref ? -1 : 1);

const columns: readonly Column<Entry>[] = [
  {
    id: "name",
    title: text.column.name,
    width: "minmax(8rem, 1fr)",
    place: "title",
    cell: ({ row }) => (
      <Link to="/image-policies/$" params={{ _splat: row.ref }} tabIndex={-1} className={styles.name}>
        {row.ref}
      </Link>
    ),
  },
  {
    id: "state",
    title: text.column.phase,
    width: "12rem",
    place: "state",
    cell: ({ policy }) => <ImageState policy={policy} />,
  },
  {
    id: "repository",
    title: text.column.repository,
    width: "minmax(7rem, 1fr)",
    cell: ({ policy }) => policy.spec?.repository,
  },
  {
    id: "tag",
    title: words.column.tag,
    width: "minmax(6rem, 1fr)",
    cell: ({ policy }) => policy.status?.tag && <code>{policy.status.tag}</code>,
  },
  {
    id: "writes",
    title: words.column.writes,
    width: "minmax(8rem, 1fr)",
    cell: ({ policy: { spec } }) => spec?.write && `${spec.write.repository} ${spec.write.branch}`,
  },
  {
    id: "reason",
    title: text.column.reason,
    width: "minmax(9rem, 2fr)",
    place: "note",
    cell: ({ row }) => <Why row={row} />,
  },
  {
    id: "selected",
    title: words.column.selected,
    width: "6rem",
    place: "end",
    isNumber: true,
    cell: ({ policy }) => <Age at={ms(policy.status?.selectedAt)} />,
  },
];

/** ImagePoliciesPage is every image policy, those with problems first. */
export function ImagePoliciesPage() {
  useTitle(text.imagePolicies);
  const { filter = "" } = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.imagePolicies}>
      <ObjectList
        kind="ImagePolicy"
        noun="imagepolicies"
        filter={filter}
        onFilter={(next) => void navigate({ to: "/image-policies", search: next === "" ? {} : { filter: next } })}
        read={read}
        compare={compare}
        columns={columns}
        entryKey={({ row }) => row.ref}
        onOpen={({ row }) => void navigate({ to: "/image-policies/$", params: { _splat: row.ref } })}
        empty={
          <Empty icon="tag" title={words.none}>
            <p>{words.noneBody}</p>
            <Command>leat apply -f examples/image-automation</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}
