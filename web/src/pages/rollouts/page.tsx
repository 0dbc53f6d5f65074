// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ms } from "../../fleet/columns.tsx";
import { ObjectList } from "../../fleet/objects.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { hasEnded, needsPerson, RolloutProgress, RolloutState } from "../../fleet/rollouts.tsx";
import type { FleetRow } from "../../gen/leat/fleet/v1/query_pb";
import type { Rollout } from "../../gen/leat/fleet/v1/rollout_pb";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import type { Column } from "../../parts/grid.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

const route = getRouteApi("/rollouts/");

interface Entry {
  ref: string;
  rollout: Rollout | undefined;
  /** What holds it, or why it ended. */
  held: string;
  since: number | undefined;
}

function read(row: FleetRow): Entry | undefined {
  const object = row.document?.object;
  if (object?.case !== "rolloutPolicy") return undefined;
  const status = object.value.status;
  const rollout = status?.latest;
  return {
    ref: row.ref,
    rollout,
    held: text.sentence(status?.problem?.message || rollout?.why || rollout?.waitsFor || ""),
    since: ms(row.since) ?? ms(rollout?.endedAt) ?? ms(rollout?.startedAt),
  };
}

/** Returns the place of a rollout: what waits for a person comes before what runs, and that before what has ended. */
const rank = ({ rollout }: Entry): number => {
  if (!rollout) return 4;
  if (needsPerson(rollout)) return 0;
  if (!hasEnded(rollout)) return rollout.state === "running" ? 2 : 1;
  return 3;
};

const compare = (a: Entry, b: Entry): number =>
  rank(a) - rank(b) || (b.since ?? 0) - (a.since ?? 0) || (a.ref < b.ref ? -1 : 1);

const columns: readonly Column<Entry>[] = [
  {
    id: "name",
    title: text.column.name,
    width: "minmax(9rem, 1.4fr)",
    place: "title",
    cell: ({ ref, rollout }) => (
      <>
        <Link to="/rollouts/$" params={{ _splat: ref }} tabIndex={-1} className={styles.name}>
          {ref}
        </Link>
        {rollout && <span className={styles.number}>#{String(rollout.number)}</span>}
      </>
    ),
  },
  {
    id: "state",
    title: text.column.phase,
    width: "11rem",
    place: "state",
    cell: ({ rollout }) => <RolloutState rollout={rollout} />,
  },
  {
    id: "progress",
    title: delivery.rollout.column.progress,
    width: "minmax(15rem, 1.3fr)",
    cell: ({ rollout }) => rollout && <RolloutProgress rollout={rollout} />,
  },
  {
    id: "wave",
    title: delivery.rollout.column.wave,
    width: "minmax(5rem, 0.7fr)",
    cell: ({ rollout }) => rollout?.wave,
  },
  {
    id: "held",
    title: delivery.rollout.column.held,
    width: "minmax(10rem, 2.4fr)",
    place: "note",
    cell: ({ held }) => (
      <span className={styles.held} title={held}>
        {held}
      </span>
    ),
  },
  {
    id: "since",
    title: text.column.since,
    width: "5rem",
    place: "end",
    isNumber: true,
    cell: ({ since }) => <Age at={since} />,
  },
];

/** RolloutsPage is every policy with its latest rollout: first those that wait for a person, with what holds them. */
export function RolloutsPage() {
  useTitle(text.rollouts);
  const { filter = "" } = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.rollouts}>
      <ObjectList
        kind="RolloutPolicy"
        noun="rolloutpolicies"
        filter={filter}
        onFilter={(next) => void navigate({ to: "/rollouts", search: next === "" ? {} : { filter: next } })}
        read={read}
        compare={compare}
        columns={columns}
        entryKey={({ ref }) => ref}
        onOpen={({ ref }) => void navigate({ to: "/rollouts/$", params: { _splat: ref } })}
        empty={
          <Empty icon="rollout" title={delivery.rollout.none}>
            <p>{delivery.rollout.noneBody}</p>
            <Command>leat apply -f rolloutpolicy.yaml</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}
