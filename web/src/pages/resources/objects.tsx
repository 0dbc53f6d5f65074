// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { addressOf, comparison, entryColumns } from "../../fleet/entries.tsx";
import { type Field, SearchForm } from "../../fleet/form.tsx";
import { ReachFailure, ReachNotice } from "../../fleet/reach.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { permit } from "../../hub/permit.ts";
import { originOf } from "../../kube/api.ts";
import { type Kind, resourceOf } from "../../kube/discovery.ts";
import { type Entry, type Listing, listingSource } from "../../kube/listing.ts";
import { readTable } from "../../kube/table.ts";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import { FilterField } from "../../parts/filter.tsx";
import { Grid } from "../../parts/grid.tsx";
import { Stale } from "../../parts/phase.tsx";
import { Empty, Notice, Skeleton } from "../../parts/states.tsx";
import { text } from "../../text/en.ts";
import { reach } from "../../text/reach.ts";
import styles from "./page.module.css";

const route = getRouteApi("/clusters/$cluster/resources");

/** Objects is the objects of one kind, as kubectl prints them, while they change. */
export function Objects({ cluster, path, kind }: { cluster: string; path: string; kind: Kind }) {
  const hub = useHub();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/clusters/$cluster/resources" });
  const selection = {
    namespace: kind.isNamespaced ? (search.namespace ?? "") : "",
    labels: search.labels ?? "",
    fields: search.fields ?? "",
  };
  const { value, failure, link, asOf, store } = useLive(
    JSON.stringify(["list", path, kind, selection]),
    () => {
      const source = listingSource(hub, path, kind, selection);
      const { group: apiGroup, resource } = kind;
      const needs = { cluster, verb: "list", apiGroup, resource, namespace: selection.namespace };
      return { ...source, load: (signal) => permit(hub, needs).then(() => source.load(signal)) };
    },
    hub.surroundings,
    true,
  );
  const fields = useFields(cluster, path, kind, selection.namespace);
  const command = [
    "kubectl",
    `--context ${shellQuote(`leat-${path}`)}`,
    `get ${shellQuote(resourceOf(kind))}`,
    kind.isNamespaced && (selection.namespace ? `-n ${shellQuote(selection.namespace)}` : "-A"),
    selection.labels && `-l ${shellQuote(selection.labels)}`,
    selection.fields && `--field-selector ${shellQuote(selection.fields)}`,
  ]
    .filter(Boolean)
    .join(" ");
  const isGone = failure?.kind === "missing" && originOf(failure) === "cluster";
  const isFailed = failure !== undefined && (!value || link === "stopped");
  return (
    <div className={styles.objects}>
      <div className={styles.bar}>
        <SearchForm
          label={reach.objects.question}
          fields={fields}
          value={search}
          verb={text.show}
          onAsk={({ namespace, labels, fields }) =>
            void navigate({
              to: ".",
              search: ({ kind, name, order }) => ({
                ...(kind && { kind }),
                ...(name && { name }),
                ...(order && { order }),
                ...(namespace && { namespace }),
                ...(labels && { labels }),
                ...(fields && { fields }),
              }),
            })
          }
        />
        <div className={styles.tools}>
          <FilterField
            label={reach.objects.name}
            placeholder={reach.objects.namePlaceholder}
            value={search.name ?? ""}
            onChange={(next) =>
              void navigate({
                to: ".",
                search: ({ name: _, ...rest }) => ({ ...rest, ...(next && { name: next }) }),
                replace: true,
              })
            }
          />
          <Command label={text.sameAs}>{command}</Command>
        </div>
      </div>
      {isFailed && isGone ? (
        <Empty icon="search" title={reach.objects.vanished}>
          <p>{reach.objects.vanishedBody}</p>
        </Empty>
      ) : isFailed ? (
        <>
          {failure.kind === "refused" && kind.isNamespaced && selection.namespace === "" && (
            <div className={styles.notices}>
              <Notice tone="idle" icon="info" title={reach.objects.tryNamespace} />
            </div>
          )}
          <ReachFailure failure={failure} cluster={cluster} onRetry={store.retry} command={command} />
        </>
      ) : !value ? (
        <Skeleton lines={8} />
      ) : (
        <>
          <div className={styles.notices}>
            {failure && <ReachNotice failure={failure} onRetry={store.retry} asOf={asOf} />}
            {value.restarts > 0 && <Notice tone="warn" icon="clock" title={reach.objects.restarted} />}
            {value.more !== 0 && !value.isReading && (
              <Notice tone="idle" icon="info" title={reach.objects.first(value.rows.length, value.more)}>
                <p>{reach.objects.narrow}</p>
              </Notice>
            )}
          </div>
          <Stale value={link !== "live"}>
            <Rows
              cluster={cluster}
              kind={kind}
              listing={value}
              isOld={link !== "live"}
              asOf={asOf}
              hasNamespaces={kind.isNamespaced && selection.namespace === ""}
            />
          </Stale>
        </>
      )}
    </div>
  );
}

type Asked = "namespace" | "labels" | "fields";

const mostNamespaces = 500;

/** Returns what a list is asked for. The namespaces are a choice where the person may list them, and a text elsewhere. */
function useFields(cluster: string, path: string, kind: Kind, chosen: string): readonly Field<Asked>[] {
  const hub = useHub();
  const { value } = useLive(
    `namespaces ${path} ${kind.isNamespaced}`,
    () => ({
      load: async (signal) => {
        if (!kind.isNamespaced) return undefined;
        await permit(hub, { cluster, verb: "list", apiGroup: "", resource: "namespaces" });
        return readTable(hub, path, "/api/v1/namespaces", {}, signal);
      },
    }),
    hub.surroundings,
    true,
  );
  return useMemo(() => {
    const names = value && value.more === 0 ? value.rows.slice(0, mostNamespaces).map(({ name }) => name) : undefined;
    if (names && chosen !== "" && !names.includes(chosen)) names.unshift(chosen);
    const choices = names && [
      ["", reach.objects.allNamespaces] as const,
      ...names.map((name) => [name, name] as const),
    ];
    return [
      ...(kind.isNamespaced
        ? [{ name: "namespace" as const, label: reach.objects.namespace, ...(choices && { choices }) }]
        : []),
      { name: "labels", label: reach.objects.labels },
      { name: "fields", label: reach.objects.fields },
    ];
  }, [value, chosen, kind.isNamespaced]);
}

function Rows({
  cluster,
  kind,
  listing,
  isOld,
  asOf,
  hasNamespaces,
}: {
  cluster: string;
  kind: Kind;
  listing: Listing;
  isOld: boolean;
  asOf: number | undefined;
  hasNamespaces: boolean;
}) {
  const { name = "", order = "" } = route.useSearch();
  const navigate = useNavigate();
  const { headings, rows, more, isReading } = listing;
  const shown = useMemo(() => {
    const wanted = name.toLowerCase();
    const found = wanted === "" ? [...rows] : rows.filter((row) => row.name.toLowerCase().includes(wanted));
    return found.sort(comparison(order, headings));
  }, [rows, headings, name, order]);
  const titles = headings.map(({ title }) => title).join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the titles are what the headings have for the grid
  const columns = useMemo(
    () => entryColumns(headings, { hasNamespaces, where: (row: Entry) => addressOf(cluster, kind, row) }),
    [cluster, kind, titles, hasNamespaces],
  );
  const open = useCallback(
    (row: Entry) =>
      void navigate({
        to: "/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object",
        params: addressOf(cluster, kind, row),
      }),
    [navigate, cluster, kind],
  );
  const all = `${more === 0 ? reach.objects.count(rows.length) : reach.objects.first(rows.length, more)}.`;
  return (
    <>
      <div className={styles.bar}>
        <p className={styles.note} role="status">
          {name === "" ? all : reach.objects.found(shown.length, all)} {isReading && reach.objects.reading}
          {!isReading && !isOld && (kind.verbs.includes("watch") ? reach.objects.live : reach.objects.polled)}
          {isOld && (
            <>
              {reach.objects.readAt} <Age at={asOf} />
            </>
          )}
        </p>
      </div>
      {shown.length === 0 && !isReading ? (
        rows.length === 0 ? (
          <Empty icon="search" title={reach.objects.none}>
            <p>{reach.objects.noneBody}</p>
          </Empty>
        ) : (
          <Empty icon="search" title={reach.objects.noneNamed}>
            <p>{reach.objects.noneNamedBody}</p>
          </Empty>
        )
      ) : (
        <div className={styles.rows}>
          <Grid
            label={kind.kind}
            columns={columns}
            count={shown.length}
            row={(index) => shown[index]}
            rowKey={(row) => row.key}
            order={order === "" ? (columns[0]?.order ?? "") : order}
            onOrder={(next) =>
              void navigate({ to: ".", search: (before) => ({ ...before, order: next }), replace: true })
            }
            onOpen={open}
            isOld={() => isOld}
          />
        </div>
      )}
    </>
  );
}
