// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useNavigate, useSearch } from "@tanstack/react-router";
import { Card } from "../../fleet/page.tsx";
import { ReachFailure, ReachNotice } from "../../fleet/reach.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { type AgentEvent, agentEventSource, notedSource } from "../../kube/activity.ts";
import type { KubeEvent } from "../../kube/events.ts";
import { placeOf } from "../../kube/names.ts";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import { type Column, Grid, narrow, wide } from "../../parts/grid.tsx";
import { LogLine } from "../../parts/line.tsx";
import { Phase, State } from "../../parts/phase.tsx";
import { useNarrow } from "../../parts/rows.ts";
import { Empty, Notice, Skeleton } from "../../parts/states.tsx";
import { text } from "../../text/en.ts";
import { understand } from "../../text/understand.ts";
import styles from "./events.module.css";

type Happening = { key: string; at: number } & (
  | { of: "cluster"; event: KubeEvent }
  | { of: "agent"; event: AgentEvent }
);

/** Events is what the cluster noted about a service's objects, and what the agent does while the page is open. */
export function Events({ name, service }: { name: string; service: Service }) {
  const hub = useHub();
  const { warnings = false } = useSearch({ from: "/services/$" });
  const navigate = useNavigate({ from: "/services/$" });
  const isNarrow = useNarrow();
  const place = placeOf(service);
  const noted = useLive(`events ${name}`, () => notedSource(hub, place), hub.surroundings, true);
  const agent = useLive(`agent ${name}`, () => agentEventSource(hub, place), hub.surroundings, true);
  const command = `leat events service/${shellQuote(name)}`;

  const all: Happening[] = [
    ...(noted.value?.events ?? []).map((event): Happening => ({ of: "cluster", key: event.key, at: event.at, event })),
    ...(agent.value ?? []).map((event): Happening => ({ of: "agent", key: event.key, at: event.at, event })),
  ]
    .filter((each) => !warnings || (each.of === "cluster" && each.event.isWarning))
    .sort((a, b) => b.at - a.at);
  const isFailed = noted.failure && !noted.value && all.length === 0;
  return (
    <Card title={understand.events.title} note={<Command label={text.sameAs}>{command}</Command>}>
      <div className={styles.tools}>
        <label className={styles.check}>
          <input
            type="checkbox"
            checked={warnings}
            onChange={() =>
              void navigate({
                to: ".",
                search: ({ warnings: _, ...rest }) => ({ ...rest, ...(!warnings && { warnings: true }) }),
                replace: true,
              })
            }
          />
          {understand.events.warnings}
        </label>
        <span className={styles.note}>{agent.link === "live" && understand.events.agentLive}</span>
      </div>
      <div className={styles.notices}>
        {noted.failure && !isFailed && (
          <ReachNotice failure={noted.failure} onRetry={noted.store.retry} asOf={noted.asOf} />
        )}
        {agent.failure && !isFailed && (
          <ReachNotice failure={agent.failure} onRetry={agent.store.retry} asOf={agent.asOf} />
        )}
        {noted.value?.hasMore && <Notice tone="idle" icon="info" title={understand.events.more} />}
      </div>
      {isFailed && noted.failure ? (
        <ReachFailure
          failure={noted.failure}
          cluster={service.spec?.cluster ?? ""}
          onRetry={noted.store.retry}
          command={command}
        />
      ) : all.length > 0 ? (
        <div
          className={styles.frame}
          style={{ blockSize: `calc(${all.length * (isNarrow ? narrow : wide)}px + 2.25rem + 1px)` }}
        >
          <Grid
            label={understand.events.title}
            columns={columns}
            count={all.length}
            row={(index) => all[index]}
            rowKey={(each) => each.key}
          />
        </div>
      ) : !noted.value ? (
        <Skeleton lines={6} />
      ) : (
        <Empty icon="clock" title={warnings ? understand.events.noWarnings : understand.events.none}>
          <p>{understand.events.noneBody}</p>
        </Empty>
      )}
    </Card>
  );
}

/** Message is what happened, and on a narrow screen, which has no column for it, to what. */
function Message({ event }: { event: KubeEvent | AgentEvent }) {
  const isNarrow = useNarrow();
  const message = event.message.replaceAll("\n", " ");
  return (
    <span title={event.message}>
      <LogLine most={500}>{isNarrow && event.name !== "" ? `${event.name}: ${message}` : message}</LogLine>
    </span>
  );
}

const columns: readonly Column<Happening>[] = [
  {
    id: "reason",
    title: text.column.reason,
    width: "minmax(9rem, 0.8fr)",
    place: "title",
    cell: (each) =>
      each.of === "agent" ? (
        <Phase phase={each.event.phase} />
      ) : (
        <State tone={each.event.isWarning ? "warn" : "idle"} icon={each.event.isWarning ? "alert" : "info"}>
          {each.event.reason}
        </State>
      ),
  },
  {
    id: "object",
    title: text.column.object,
    width: "minmax(12rem, 1.2fr)",
    cell: ({ of, event }) => {
      const shown = `${event.kind} ${event.name}`.trim();
      return <span title={shown}>{shown === "" && of === "agent" ? understand.events.agent : shown}</span>;
    },
  },
  {
    id: "message",
    title: text.column.message,
    width: "minmax(14rem, 3fr)",
    place: "note",
    cell: ({ event }) => <Message event={event} />,
  },
  {
    id: "count",
    title: understand.events.count,
    width: "4rem",
    place: "state",
    isNumber: true,
    cell: (each) => (each.of === "cluster" && each.event.count > 1 ? understand.events.times(each.event.count) : null),
  },
  {
    id: "at",
    title: understand.events.last,
    width: "6rem",
    place: "end",
    isNumber: true,
    cell: ({ at }) => <Age at={at} />,
  },
];
