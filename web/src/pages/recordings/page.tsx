// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ActionFailure } from "../../fleet/action.tsx";
import { ms } from "../../fleet/columns.tsx";
import { type Field, SearchForm } from "../../fleet/form.tsx";
import { Card, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import { type Recording, TunnelService } from "../../gen/leat/tunnel/v1/tunnel_pb";
import { type Failure, failureOf } from "../../hub/failure.ts";
import { type Hub, useHub } from "../../hub/hub.ts";
import { polled, useLive } from "../../hub/live.ts";
import { permit } from "../../hub/permit.ts";
import { clusterPath } from "../../kube/names.ts";
import { Age } from "../../parts/age.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import type { RecordingsSearch } from "../../shell/router.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { size, text } from "../../text/en.ts";
import { people } from "../../text/people.ts";
import { clock, recordings } from "../../text/terminal.ts";
import styles from "./page.module.css";

const route = getRouteApi("/recordings/");

const hour = 3_600_000;
const spans: Record<string, number> = { "1h": hour, "24h": 24 * hour, "7d": 168 * hour, "30d": 720 * hour };
/** What leat session list calls them. */
const written: Record<string, string> = { "1h": "1h", "24h": "24h", "7d": "168h", "30d": "720h" };

const every = 30_000;
const pageSize = 100;
/** The page holds so many. Who looks for older ones asks a narrower question. */
const mostRecordings = 2000;

const fields: readonly Field<keyof RecordingsSearch>[] = [
  { name: "by", label: recordings.by },
  { name: "cluster", label: recordings.cluster },
  { name: "since", label: recordings.since, choices: people.audit.spans },
];

async function load(hub: Hub, { by, cluster, since }: RecordingsSearch, token: string, signal?: AbortSignal) {
  await permit(hub, { cluster: "", verb: "list", resource: "recordings" });
  const span = since && spans[since];
  return createClient(TunnelService, hub.tunnel).listRecordings(
    {
      ...(by && { subject: by.includes(":") ? by : `user:${by}` }),
      ...(cluster && { cluster: clusterPath(cluster, "") }),
      ...(span && { beganFrom: timestampFromMs(hub.surroundings.now() - span) }),
      page: { size: pageSize, token },
    },
    signal && { signal },
  );
}

function commandOf({ by, cluster, since }: RecordingsSearch): string {
  const parts = ["leat session list", by && `--user ${shellQuote(by)}`, cluster && `--cluster ${shellQuote(cluster)}`];
  return [...parts, since && `--since ${written[since]}`].filter(Boolean).join(" ");
}

/** RecordingsPage lists the recorded sessions in pods: whose, where, and how long. */
export function RecordingsPage() {
  const hub = useHub();
  const search = route.useSearch();
  const navigate = useNavigate();
  useTitle(text.recordings);
  const key = JSON.stringify(search);
  const { value, failure, link, store } = useLive(
    `recordings ${key}`,
    () => polled((signal) => load(hub, search, "", signal), every, hub.surroundings),
    hub.surroundings,
  );
  const [older, setOlder] = useState<{ of: string; all: readonly Recording[]; next: string }>();
  const [loading, setLoading] = useState(false);
  const [olderFailure, setOlderFailure] = useState<Failure>();
  const tail = older?.of === key ? older : { of: key, all: [], next: value?.nextPageToken ?? "" };
  // A recording that has begun meanwhile moves the others down, over the end of the first page.
  const all = [...new Map([...tail.all, ...(value?.recordings ?? [])].map((each) => [each.id, each])).values()].sort(
    (a, b) => (ms(b.beganAt) ?? 0) - (ms(a.beganAt) ?? 0),
  );

  const loadOlder = async () => {
    setLoading(true);
    setOlderFailure(undefined);
    try {
      const page = await load(hub, search, tail.next);
      setOlder({ of: key, all: [...tail.all, ...page.recordings], next: page.nextPageToken });
    } catch (thrown) {
      setOlderFailure(failureOf(thrown));
    } finally {
      setLoading(false);
    }
  };
  const command = commandOf(search);
  const isFiltered = key !== "{}";
  return (
    <Page>
      <div className={styles.head}>
        <h1>{text.recordings}</h1>
        <Command label={text.sameAs}>{command}</Command>
      </div>
      <Card title={recordings.question}>
        <SearchForm
          label={recordings.question}
          fields={fields}
          value={search}
          verb={text.show}
          onAsk={(next) => void navigate({ to: "/recordings", search: next })}
        />
      </Card>
      {link === "reconnecting" && value && <Notice tone="warn" icon="offline" title={text.linkTitle.reconnecting} />}
      {value && value.unanswered.length > 0 && (
        <Notice
          tone="warn"
          icon="alert"
          title={recordings.unanswered(
            value.unanswered
              .map((name) => name || recordings.anyReplica)
              .slice(0, 5)
              .join(", "),
          )}
        />
      )}
      {failure && (!value || link === "stopped") ? (
        <ErrorState failure={failure} onRetry={store.retry} command={command} />
      ) : !value ? (
        <Skeleton lines={8} />
      ) : all.length === 0 ? (
        <Empty icon={isFiltered ? "search" : "system"} title={isFiltered ? recordings.noMatch : recordings.noneYet}>
          {!isFiltered && <p>{recordings.noneBody}</p>}
        </Empty>
      ) : (
        <Card title={recordings.list}>
          <Table columns={recordings.columns} rows={all.map(rowOf)} />
          <div className={styles.more}>
            <ActionFailure failure={olderFailure} />
            {tail.next === "" || all.length >= mostRecordings ? (
              <p>{tail.next === "" ? recordings.end : people.audit.tooMany(mostRecordings)}</p>
            ) : (
              <Button busy={loading} onClick={() => void loadOlder()}>
                {recordings.older}
              </Button>
            )}
          </div>
        </Card>
      )}
    </Page>
  );
}

function rowOf({
  id,
  subject,
  cluster,
  namespace,
  pod,
  container,
  command,
  beganAt,
  writtenAt,
  size: bytes,
}: Recording) {
  const person = subject.replace(/^user:/, "");
  const length = Math.max(0, (ms(writtenAt) ?? 0) - (ms(beganAt) ?? 0)) / 1000;
  return {
    key: id,
    cells: [
      <Age key="began" at={ms(beganAt)} />,
      person,
      <span key="where" className={styles.where}>
        {cluster} · {namespace}/{pod}
        {container && ` · ${container}`}
      </span>,
      command.length > 0 ? (
        <code key="command" className={styles.command}>
          {command.join(" ").slice(0, 300)}
        </code>
      ) : (
        recordings.attached
      ),
      // A hub of an earlier version does not say when it ended.
      writtenAt ? clock(length) : "",
      size(Number(bytes)),
      <Link key="play" to="/recordings/$" params={{ _splat: id }} aria-label={recordings.playOf(person, pod)}>
        {recordings.play}
      </Link>,
    ],
  };
}
