// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ObjectList } from "../../fleet/objects.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { fullness, inWords, partOf, toneOfPart, usesOf } from "../../fleet/quota.tsx";
import type { Project } from "../../gen/leat/fleet/v1/project_pb";
import type { FleetRow } from "../../gen/leat/fleet/v1/query_pb";
import { Command } from "../../parts/command.tsx";
import type { Column } from "../../parts/grid.tsx";
import { LiveState } from "../../parts/phase.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { govern } from "../../text/govern.ts";
import styles from "./page.module.css";

const route = getRouteApi("/projects/");
const words = govern.project;

/** A project's counts change with what others make, which no stream of projects tells. */
const every = 15_000;

interface Entry {
  ref: string;
  project: Project;
}

function read(row: FleetRow): Entry | undefined {
  const object = row.document?.object;
  return object?.case === "project" ? { ref: row.ref, project: object.value } : undefined;
}

const compare = (a: Entry, b: Entry): number =>
  (fullness(b.project) ?? -1) - (fullness(a.project) ?? -1) || (a.ref < b.ref ? -1 : 1);

const counted = (id: string, title: string, of: (entry: Entry) => number): Column<Entry> => ({
  id,
  title,
  width: "6.5rem",
  isNumber: true,
  cell: (entry) => text.number(of(entry)),
});

const columns: readonly Column<Entry>[] = [
  {
    id: "name",
    title: text.column.name,
    width: "minmax(8rem, 1.2fr)",
    place: "title",
    cell: ({ ref }) => (
      <Link to="/projects/$" params={{ _splat: ref }} tabIndex={-1} className={styles.name}>
        {ref}
      </Link>
    ),
  },
  {
    id: "quota",
    title: words.column.fullest,
    width: "12rem",
    place: "state",
    cell: ({ project }) => <Fullest project={project} />,
  },
  counted("services", words.services, ({ project }) => project.status?.services ?? 0),
  counted("clusters", words.clusters, ({ project }) => project.status?.clusters ?? 0),
  counted("repositories", words.repositories, ({ project }) => project.status?.repositories ?? 0),
  {
    id: "bundles",
    title: words.column.bundles,
    width: "6rem",
    isNumber: true,
    place: "end",
    cell: ({ project }) => text.size(Number(project.status?.bundleBytes ?? 0)),
  },
  {
    id: "description",
    title: words.column.description,
    width: "minmax(9rem, 2fr)",
    place: "note",
    cell: ({ project }) => <span title={project.spec?.description}>{project.spec?.description}</span>,
  },
];

/** Fullest is the quota of a project that is nearest to its end. */
function Fullest({ project }: { project: Project }) {
  const use = usesOf(project).sort((a, b) => partOf(b) - partOf(a))[0];
  if (!use) return <span className={styles.quiet}>{words.noQuota}</span>;
  const tone = toneOfPart(partOf(use));
  return (
    <span title={`${use.name}: ${inWords(use)}`}>
      <LiveState tone={tone} icon={tone === "ok" ? "check" : "alert"}>
        {tone === "bad" ? words.isFull : tone === "warn" ? words.tight : words.share(partOf(use))}
      </LiveState>
    </span>
  );
}

/** ProjectsPage is every project: those whose quotas are nearly used up come first. */
export function ProjectsPage() {
  useTitle(text.projects);
  const { filter = "" } = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.projects}>
      <ObjectList
        kind="Project"
        noun="projects"
        every={every}
        filter={filter}
        onFilter={(next) => void navigate({ to: "/projects", search: next === "" ? {} : { filter: next } })}
        read={read}
        compare={compare}
        columns={columns}
        entryKey={({ ref }) => ref}
        onOpen={({ ref }) => void navigate({ to: "/projects/$", params: { _splat: ref } })}
        empty={
          <Empty icon="folder" title={words.none}>
            <p>{words.noneBody}</p>
            <Command>leat apply -f project.yaml</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}
