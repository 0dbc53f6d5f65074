// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ActionFailure } from "../../fleet/action.tsx";
import { ms } from "../../fleet/columns.tsx";
import { type Field, SearchForm } from "../../fleet/form.tsx";
import { Card, Page } from "../../fleet/page.tsx";
import { objectPage, shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import { type AuditFieldChange, type AuditRecord, AuditSecretEffect } from "../../gen/leat/fleet/v1/audit_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { auditPage, auditSource, mostRecords, type Question } from "../../hub/audit.ts";
import { type Failure, failureOf } from "../../hub/failure.ts";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { permit } from "../../hub/permit.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { people } from "../../text/people.ts";
import styles from "./page.module.css";

const route = getRouteApi("/audit");

const hour = 3_600_000;
const spans: Record<string, number> = { "1h": hour, "24h": 24 * hour, "7d": 168 * hour, "30d": 720 * hour };

const fields: readonly Field<"by" | "kind" | "name" | "cluster" | "verb" | "outcome" | "since">[] = [
  { name: "by", label: people.audit.by },
  { name: "since", label: people.audit.since, choices: people.audit.spans },
  { name: "verb", label: people.audit.verb, isSeldom: true },
  { name: "kind", label: people.audit.kind, isSeldom: true },
  { name: "name", label: people.audit.name, isSeldom: true },
  { name: "cluster", label: people.audit.cluster, isSeldom: true },
  { name: "outcome", label: people.audit.outcome, choices: people.audit.outcomes, isSeldom: true },
];

const readsAudit = { cluster: "", verb: "list", resource: "auditrecords" };

/** AuditPage says who changed what in the hub, when, and why they say they did. */
export function AuditPage() {
  const hub = useHub();
  const search = route.useSearch();
  const navigate = useNavigate();
  useTitle(text.audit);
  const { since, ...asked } = search;
  const span = since && spans[since];
  const question: Question = { ...asked, ...(span && { span }) };
  const key = JSON.stringify(question);
  const { value, failure, link, store } = useLive(
    `audit ${key}`,
    () => {
      const source = auditSource(hub.call(FleetService), question, hub.surroundings);
      return { ...source, load: (signal) => permit(hub, readsAudit).then(() => source.load(signal)) };
    },
    hub.surroundings,
  );
  const [older, setOlder] = useState<{ of: string; records: readonly AuditRecord[]; next: string }>();
  const [loading, setLoading] = useState(false);
  const [olderFailure, setOlderFailure] = useState<Failure>();
  // The pages that were loaded belong to the log below which they stand.
  const of = `${key} ${value?.next}`;
  const tail = older?.of === of ? older : { of, records: [], next: value?.next ?? "" };
  const records = [...(value?.records ?? []), ...tail.records];

  const loadOlder = async () => {
    setLoading(true);
    setOlderFailure(undefined);
    try {
      const page = await auditPage(hub.call(FleetService), question, hub.surroundings.now(), tail.next);
      setOlder({ of, records: [...tail.records, ...page.records], next: page.nextPageToken });
    } catch (thrown) {
      setOlderFailure(failureOf(thrown));
    } finally {
      setLoading(false);
    }
  };

  return (
    <Page>
      <div className={styles.head}>
        <h1>{text.audit}</h1>
        <Command label={text.sameAs}>{commandOf(search)}</Command>
      </div>
      <Card title={people.audit.question}>
        <SearchForm
          label={people.audit.question}
          fields={fields}
          value={search}
          verb={text.show}
          more={people.audit.more}
          onAsk={(next) => void navigate({ to: "/audit", search: next })}
        />
      </Card>
      {link === "reconnecting" && value && <Notice tone="warn" icon="offline" title={text.linkTitle.reconnecting} />}
      {failure && (!value || link === "stopped") ? (
        <ErrorState failure={failure} onRetry={store.retry} command={commandOf(search)} />
      ) : !value ? (
        <Skeleton lines={8} />
      ) : records.length === 0 && tail.next === "" ? (
        <Empty icon="search" title={people.audit.none}>
          <p>{people.audit.noneBody}</p>
        </Empty>
      ) : (
        <Card title={people.audit.records}>
          <Table columns={[...people.audit.columns]} rows={records.map(rowOf)} />
          <div className={styles.more}>
            <ActionFailure failure={olderFailure} />
            {tail.next === "" ? (
              <p>{people.audit.end}</p>
            ) : records.length >= mostRecords ? (
              <p>{people.audit.tooMany(mostRecords)}</p>
            ) : (
              <Button busy={loading} onClick={() => void loadOlder()}>
                {people.audit.older}
              </Button>
            )}
          </div>
        </Card>
      )}
    </Page>
  );
}

const nameOf = ({ name, cluster, kind }: AuditRecord) => (kind === "Service" && cluster ? `${name}@${cluster}` : name);

function rowOf(record: AuditRecord) {
  const { verb, kind, outcome, reason, changes, changesOmitted, count } = record;
  const name = nameOf(record);
  const to = outcome === "OK" && verb !== "delete" ? objectPage(kind) : undefined;
  const hasNote = reason !== "" || changes.length > 0 || count > 0n || record.tokenLimit !== "";
  return {
    key: String(record.sequence),
    cells: [
      <Age key="time" at={ms(record.time)} />,
      <span key="by" title={record.sourceAddress}>
        {record.subject.replace(/^user:/, "")}
      </span>,
      <span key="what" className={styles.what}>
        {`${verb} ${kind} `}
        {to && name !== "" ? (
          <Link to={to} params={{ _splat: name }}>
            {name}
          </Link>
        ) : (
          name
        )}
      </span>,
      outcome === "OK" ? (
        <Badge key="outcome" tone="ok">
          {people.audit.done}
        </Badge>
      ) : (
        <Badge key="outcome" tone="bad">
          {outcome}
        </Badge>
      ),
    ],
    note: hasNote && (
      <div className={styles.note}>
        {reason !== "" && <p className={styles.reason}>{text.quoted(reason)}</p>}
        {count > 0n && <p>{people.audit.summary(Number(count))}</p>}
        {record.tokenLimit !== "" && <p>{people.audit.limit(record.tokenLimit)}</p>}
        {changes.length > 0 && (
          <details>
            <summary>{people.audit.changes(changes.length + changesOmitted)}</summary>
            <ul className={styles.changes}>
              {changes.map((change) => (
                <li key={change.path}>
                  <code>{change.path}</code> {effectOf(change)}
                </li>
              ))}
              {changesOmitted > 0 && <li>{people.audit.omitted(changesOmitted)}</li>}
            </ul>
          </details>
        )}
      </div>
    ),
  };
}

function effectOf({ secretEffect, old, new: next }: AuditFieldChange) {
  if (secretEffect !== AuditSecretEffect.UNSPECIFIED) return people.audit.secret[secretEffect];
  return (
    <>
      {old === undefined ? people.audit.unset : <del>{old}</del>} →{" "}
      {next === undefined ? people.audit.unset : <ins>{next}</ins>}
    </>
  );
}

function commandOf({ by, kind, name, cluster, verb, outcome, since }: ReturnType<typeof route.useSearch>): string {
  return [
    "leat audit",
    kind && shellQuote(kind.toLowerCase()),
    kind && name && shellQuote(name),
    by && `--by ${shellQuote(by)}`,
    verb && `--verb ${shellQuote(verb)}`,
    cluster && `--cluster ${shellQuote(cluster)}`,
    outcome && (outcome === "REFUSED" ? "--refused" : `--outcome ${shellQuote(outcome.toLowerCase())}`),
    since && `--since ${since}`,
  ]
    .filter(Boolean)
    .join(" ");
}
