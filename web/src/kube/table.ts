// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Hub } from "../hub/hub.ts";
import { query, readJson } from "./api.ts";

// Lists as Table: the columns that kubectl prints and the metadata of each object, without its spec and status. The API
// server decides what a pod's state is called, so the page and kubectl have the same word for it.

export const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/** Owner is an object that another one belongs to. */
export interface Owner {
  kind: string;
  name: string;
  uid: string;
}

/** Row is an object of a list. */
export interface Row {
  namespace: string;
  name: string;
  uid: string;
  owners: readonly Owner[];
  /** The columns as kubectl prints them, by their titles. */
  cells: Readonly<Record<string, string>>;
  isDeleted: boolean;
  createdAt: number | undefined;
}

export interface Listing {
  rows: readonly Row[];
  /** How many objects the list has beyond those that were read. The API server does not count each list: -1. */
  more: number;
}

interface RawTable {
  metadata?: { continue?: string; remainingItemCount?: number };
  columnDefinitions?: { name?: string }[];
  rows?: { cells?: unknown[]; object?: { metadata?: RawMetadata } }[];
}

interface RawMetadata {
  namespace?: string;
  name?: string;
  uid?: string;
  deletionTimestamp?: string;
  creationTimestamp?: string;
  ownerReferences?: Partial<Owner>[];
}

const mostCell = 500;
const asText = (value: unknown) => String(value ?? "").slice(0, mostCell);

export const mostRows = 500;

/** Returns a list of at most 500 objects. */
export async function readTable(
  { clusters }: Hub,
  cluster: string,
  path: string,
  selectors: { labelSelector?: string; fieldSelector?: string },
  signal: AbortSignal,
): Promise<Listing> {
  const url = path + query({ ...selectors, limit: mostRows });
  const table = await readJson<RawTable>(clusters, cluster, url, signal, asTable);
  const titles = (table.columnDefinitions ?? []).map((column) => asText(column.name));
  const rows = (table.rows ?? []).slice(0, mostRows).map(({ cells = [], object = {} }): Row => {
    const metadata = object.metadata ?? {};
    const created = Date.parse(metadata.creationTimestamp ?? "");
    return {
      namespace: asText(metadata.namespace),
      name: asText(metadata.name),
      uid: asText(metadata.uid),
      owners: (metadata.ownerReferences ?? []).slice(0, 10).map((owner) => ({
        kind: asText(owner.kind),
        name: asText(owner.name),
        uid: asText(owner.uid),
      })),
      cells: Object.fromEntries(titles.map((title, index) => [title, asText(cells[index])])),
      isDeleted: metadata.deletionTimestamp !== undefined,
      createdAt: Number.isNaN(created) ? undefined : created,
    };
  });
  const { continue: next, remainingItemCount } = table.metadata ?? {};
  return { rows, more: next ? (remainingItemCount ?? -1) : 0 };
}
