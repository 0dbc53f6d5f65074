// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { Crumbs, outer } from "../../fleet/crumbs.tsx";
import { addressOf, comparison, entryColumns } from "../../fleet/entries.tsx";
import { type Field, SearchForm } from "../../fleet/form.tsx";
import { wordsOf } from "../../fleet/reach.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { useHub } from "../../hub/hub.ts";
import { listSource } from "../../hub/list.ts";
import { useLive } from "../../hub/live.ts";
import type { Selection } from "../../kube/listing.ts";
import { type Answer, commonKinds, type Found, fullKind, type Gathered, Many, mostClusters } from "../../kube/many.ts";
import { clusterPath } from "../../kube/names.ts";
import { Age } from "../../parts/age.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { FilterField } from "../../parts/filter.tsx";
import { type Column, Grid } from "../../parts/grid.tsx";
import type { IconName } from "../../parts/icon.tsx";
import { LogLine } from "../../parts/line.tsx";
import { State, type Tone } from "../../parts/phase.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import type { ManySearch } from "../../shell/router.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { many } from "../../text/many.ts";
import { reach } from "../../text/reach.ts";
import styles from "./page.module.css";

const route = getRouteApi("/resources");

/** How long the address lets a filter be, and names. */
const mostText = 4096;

const namesIn = (clusters = ""): string[] => [...new Set(clusters.split(/[\s,]+/).filter(Boolean))];

/** ManyPage is the objects of one kind in up to 25 clusters, each of which answers on its own. */
export function ManyPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const { kind = "", filter = "", clusters = "" } = search;
  const isAsked = kind !== "" && (filter !== "" || clusters !== "");
  useTitle(kind === "" ? many.title : `${kind} · ${many.title}`);
  const fields: readonly Field<"kind" | "filter" | "clusters" | "namespace" | "labels">[] = [
    { name: "kind", label: many.kind, suggestions: commonKinds },
    { name: "filter", label: many.filter, most: mostText },
    { name: "clusters", label: many.names, most: mostText },
    { name: "namespace", label: reach.objects.namespace },
    { name: "labels", label: reach.objects.labels },
  ];
  return (
    <div className={styles.page}>
      <div className={styles.head}>
        <Crumbs label={many.title}>
          {[
            <Link key="clusters" activeOptions={outer} to="/clusters">
              {text.clusters}
            </Link>,
          ]}
        </Crumbs>
        <h1>{many.title}</h1>
      </div>
      <div className={styles.bar}>
        <SearchForm
          label={many.question}
          fields={fields}
          value={search}
          verb={text.show}
          onAsk={({ kind, ...asked }) =>
            void navigate({
              to: "/resources",
              search: { ...asked, ...(kind && { kind: fullKind(kind) }), ...(search.name && { name: search.name }) },
            })
          }
        />
      </div>
      {isAsked ? (
        <Asked key={JSON.stringify([kind, filter, clusters])} search={search} kind={kind} />
      ) : (
        <Empty icon="search" title={many.unasked}>
          <p>{many.unaskedBody(mostClusters)}</p>
        </Empty>
      )}
    </div>
  );
}

/** Asked finds out which clusters are meant. Names are taken as they are; a filter is the hub's to read. */
function Asked({ search, kind }: { search: ManySearch; kind: string }) {
  const hub = useHub();
  const { filter = "", clusters = "" } = search;
  const named = namesIn(clusters);
  const { value, failure, store } = useLive(
    `many ${filter} ${clusters}`,
    () => ({
      load: async (signal) => {
        if (named.length > 0) return { refs: named, total: named.length };
        const query = { kind: "Cluster", filter, order: "name" };
        const { rows, total } = await listSource(hub.query, query, { offset: 0, size: mostClusters }).load(signal);
        return { refs: rows.map(({ ref }) => ref), total };
      },
    }),
    hub.surroundings,
    true,
  );
  if (!value) {
    const command = `leat get clusters --filter ${shellQuote(filter)}`;
    return failure ? <ErrorState failure={failure} onRetry={store.retry} command={command} /> : <Skeleton lines={6} />;
  }
  if (value.refs.length === 0) {
    return (
      <Empty icon="cluster" title={many.noClusters}>
        <p>{many.noClustersBody}</p>
      </Empty>
    );
  }
  const refs = value.refs.slice(0, mostClusters);
  const { namespace = "", labels = "", fields = "" } = search;
  const selection = { namespace, labels, fields };
  return (
    <>
      {value.total > refs.length && (
        <div className={styles.bar}>
          <Notice
            tone="idle"
            icon="info"
            title={named.length > 0 ? many.tooMany(value.total, mostClusters) : many.first(refs.length, value.total)}
          />
        </div>
      )}
      <Query key={JSON.stringify([refs, selection])} refs={refs} kind={kind} selection={selection} />
    </>
  );
}

const nothing: Gathered = { answers: [], headings: [], rows: [], isRunning: true };
const unheard = () => () => {};

/** Returns what the clusters answer, and a way to ask them again. What is asked ends with the page. */
function useMany(refs: readonly string[], kind: string, selection: Selection) {
  const hub = useHub();
  const [turn, setTurn] = useState(0);
  const [asked, setAsked] = useState<Many>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the component has the question as its key
  useEffect(() => {
    const next = new Many(hub, refs, kind, selection);
    setAsked(next);
    void next.run();
    return () => next.stop();
  }, [hub, turn]);
  const gathered = useSyncExternalStore(asked?.subscribe ?? unheard, asked?.current ?? (() => nothing));
  return { gathered, again: () => setTurn((before) => before + 1) };
}

/** Returns a loop of the shell that prints the same, one cluster after the other. */
function commandOf(refs: readonly string[], kind: string, { namespace, labels, fields }: Selection): string {
  const contexts = refs.map((ref) => shellQuote(`leat-${clusterPath(ref, "")}`)).join(" ");
  const get = [
    `kubectl --context "$c" get ${shellQuote(kind)}`,
    namespace === "" ? "-A" : `-n ${shellQuote(namespace)}`,
    labels && `-l ${shellQuote(labels)}`,
    fields && `--field-selector ${shellQuote(fields)}`,
  ];
  return `for c in ${contexts}; do ${get.filter(Boolean).join(" ")}; done`;
}

function Query({ refs, kind, selection }: { refs: readonly string[]; kind: string; selection: Selection }) {
  const { name = "", order = "" } = route.useSearch();
  const navigate = useNavigate({ from: "/resources" });
  const { gathered, again } = useMany(refs, kind, selection);
  const { answers, headings, rows, isRunning } = gathered;
  const shown = useMemo(() => {
    const wanted = name.toLowerCase();
    const found = wanted === "" ? [...rows] : rows.filter((row) => row.name.toLowerCase().includes(wanted));
    return found.sort(comparison(order, headings));
  }, [rows, headings, name, order]);
  const hasNamespaces = selection.namespace === "" && rows.some((row) => row.namespace !== "");
  const columns = useMemo(
    () =>
      entryColumns<Found>(headings, {
        hasNamespaces,
        where: (row) => addressOf(row.cluster, row.kind, row),
        first: clusterColumn,
      }),
    [headings, hasNamespaces],
  );
  const open = useCallback(
    (row: Found) =>
      void navigate({
        to: "/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object",
        params: addressOf(row.cluster, row.kind, row),
      }),
    [navigate],
  );
  const done = answers.filter(({ state }) => state === "done").length;
  return (
    <>
      <div className={styles.bar}>
        <div className={styles.tools}>
          <FilterField
            label={reach.objects.name}
            placeholder={reach.objects.namePlaceholder}
            value={name}
            onChange={(next) =>
              void navigate({
                to: ".",
                search: ({ name: _, ...rest }) => ({ ...rest, ...(next && { name: next }) }),
                replace: true,
              })
            }
          />
          <Button busy={isRunning} onClick={again}>
            {many.again}
          </Button>
        </div>
        <p className={styles.note} role="status">
          {isRunning ? many.running(done, refs.length) : many.ended(done, refs.length, rows.length)}{" "}
          {name !== "" && many.found(shown.length)} {!isRunning && many.asOf}
        </p>
        <Answers answers={answers} />
      </div>
      {shown.length > 0 ? (
        <div className={styles.rows}>
          <Grid
            label={kind}
            columns={columns}
            count={shown.length}
            row={(index) => shown[index]}
            rowKey={(row) => row.key}
            order={order === "" ? byCluster : order}
            onOrder={(next) =>
              void navigate({ to: ".", search: (before) => ({ ...before, order: next }), replace: true })
            }
            onOpen={open}
          />
        </div>
      ) : isRunning ? (
        <Skeleton lines={6} />
      ) : (
        <Empty icon="search" title={many.none}>
          <p>{rows.length > 0 ? reach.objects.noneNamedBody : many.noneBody}</p>
        </Empty>
      )}
      <div className={styles.foot}>
        <Command label={text.sameAs}>{commandOf(refs, kind, selection)}</Command>
      </div>
    </>
  );
}

/** The order by cluster and then by name. No title of a cluster's own column has this form. */
const byCluster = "@cluster";

const clusterColumn: Column<Found> = {
  id: "cluster",
  title: many.cluster,
  width: "minmax(8rem, 0.8fr)",
  place: "note",
  order: byCluster,
  cell: (row) => row.cluster,
};

const looks: Record<Answer["state"], { tone: Tone; icon: IconName }> = {
  late: { tone: "warn", icon: "clock" },
  failed: { tone: "warn", icon: "cross" },
  refused: { tone: "idle", icon: "lock" },
  noKind: { tone: "idle", icon: "search" },
  asking: { tone: "progress", icon: "clock" },
  waiting: { tone: "idle", icon: "clock" },
  done: { tone: "ok", icon: "check" },
};
const states = Object.keys(looks);

/** Answers are the clusters, each in a line: what it has, or why not, and when it said so. Failures are first. */
function Answers({ answers }: { answers: readonly Answer[] }) {
  const sorted = answers.toSorted((a, b) => states.indexOf(a.state) - states.indexOf(b.state));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
    <section className={styles.answers} aria-label={many.answers} tabIndex={0}>
      <ul>
        {sorted.map((answer) => {
          const { cluster, state, failure, count, more, at } = answer;
          const { tone, icon } = looks[state];
          const why = failure ? failure.message || wordsOf(failure).title : state === "late" ? many.lateBody : "";
          return (
            <li key={cluster} className={why === "" ? undefined : styles.wide}>
              <State tone={tone} icon={icon}>
                {many.state[state]}
              </State>
              <Link to="/clusters/$" params={{ _splat: cluster }} preload={false}>
                {cluster}
              </Link>
              {state === "done" && <span>{many.objects(count, more)}</span>}
              {why !== "" && <LogLine most={300}>{why}</LogLine>}
              <span className={styles.note}>
                <Age at={at} />
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
