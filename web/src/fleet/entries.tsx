// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import { coreGroup, type Kind, noNamespace } from "../kube/discovery.ts";
import type { Entry, Heading } from "../kube/listing.ts";
import { Age } from "../parts/age.tsx";
import type { Column } from "../parts/grid.tsx";
import { LogLine } from "../parts/line.tsx";
import { reach } from "../text/reach.ts";
import styles from "./entries.module.css";

// The objects of a kind as rows of a grid: of one cluster, or of several.

const collator = new Intl.Collator("en", { numeric: true });
const byKey = (a: Entry, b: Entry) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

/** Returns how rows are sorted by a column, or by their names. */
export function comparison(order: string, headings: readonly Heading[]): (a: Entry, b: Entry) => number {
  const column = order.replace(/^-/, "");
  const sign = order.startsWith("-") ? -1 : 1;
  const index = headings.findIndex(({ title }) => title === column);
  const heading = headings[index];
  const by = (compare: (a: Entry, b: Entry) => number) => (a: Entry, b: Entry) => sign * compare(a, b) || byKey(a, b);
  if (column === "Namespace") return by((a, b) => collator.compare(a.namespace, b.namespace));
  if (column === "Name") return by((a, b) => collator.compare(a.name, b.name));
  if (!heading) return by(byKey);
  if (heading.title === "Age") return by((a, b) => (b.createdAt ?? 0) - (a.createdAt ?? 0));
  const cell = (entry: Entry) => entry.cells[index] ?? "";
  if (heading.isNumber) return by((a, b) => (Number(cell(a)) || 0) - (Number(cell(b)) || 0));
  return by((a, b) => collator.compare(cell(a), cell(b)));
}

const stateTitles = /^(status|ready|phase|state|available|type|data)$/i;

/** Returns the parameters of the address of an object's page. */
export const addressOf = (
  cluster: string,
  { group, version, resource }: Kind,
  { namespace, name }: Pick<Entry, "namespace" | "name">,
) => ({
  cluster,
  group: group || coreGroup,
  version,
  plural: resource,
  namespace: namespace || noNamespace,
  object: name,
});

/** Cell is a text of the cluster on one line, with what would deceive made visible. */
function Cell({ children }: { children: string }) {
  return (
    <span title={children}>
      <LogLine most={200}>{children.replaceAll(/[\r\n]+/g, " ")}</LogLine>
    </span>
  );
}

/** Returns the columns of rows: the name, and what the cluster prints of each. */
export function entryColumns<Row extends Entry>(
  headings: readonly Heading[],
  {
    hasNamespaces,
    where,
    first,
  }: {
    hasNamespaces: boolean;
    where: (row: Row) => ReturnType<typeof addressOf>;
    /** A column before the others, which stands in the second line of a narrow screen. */
    first?: Column<Row>;
  },
): readonly Column<Row>[] {
  const named = headings.findIndex(({ title }) => title === "Name");
  const state = headings.findIndex(({ title }) => stateTitles.test(title));
  const namespace: Column<Row> = {
    id: "namespace",
    title: reach.objects.column.namespace,
    width: "minmax(8rem, 0.8fr)",
    ...(!first && { place: "note" }),
    order: "Namespace",
    cell: (row) => <Cell>{row.namespace}</Cell>,
  };
  const note =
    hasNamespaces || first
      ? -1
      : headings.findIndex((each, at) => at !== named && at !== state && each.title !== "Age");
  return [
    ...(first ? [first] : []),
    {
      id: "name",
      title: reach.objects.column.name,
      width: "minmax(14rem, 2fr)",
      place: "title",
      order: "Name",
      cell: (row) => (
        <Link
          to="/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object"
          params={where(row)}
          preload={false}
          title={row.name}
        >
          <LogLine most={253}>{row.name}</LogLine>
          {row.isDeleted && <span className={styles.deleted}>{reach.objects.terminating}</span>}
        </Link>
      ),
    },
    ...(hasNamespaces ? [namespace] : []),
    ...headings.flatMap(({ title, isNumber }, index): Column<Row>[] => {
      if (index === named) return [];
      const isAge = title === "Age";
      return [
        {
          // Two columns may have one title.
          id: `${index} ${title}`,
          title: isAge ? reach.objects.age : title,
          width: isAge ? "6rem" : "minmax(5rem, 1fr)",
          ...(isAge
            ? { place: "end" }
            : index === state
              ? { place: "state" }
              : index === note
                ? { place: "note" }
                : {}),
          order: title,
          isNumber: isNumber || isAge,
          cell: (row) => (isAge ? <Age at={row.createdAt} /> : <Cell>{row.cells[index] ?? ""}</Cell>),
        },
      ];
    }),
  ];
}
