// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { KnownError } from "../hub/failure.ts";
import type { Hub } from "../hub/hub.ts";
import type { Source } from "../hub/live.ts";
import { hasCode, openStream, query, readJson } from "./api.ts";
import { groupVersionOf, type Kind } from "./discovery.ts";
import type { Line } from "./lines.ts";
import { resourcePath } from "./path.ts";
import { asTable } from "./table.ts";

// The objects of one kind: a list in chunks, as the Table that kubectl prints, and then a watch of the same. What is kept
// is bounded in rows and in bytes, so the list may have more objects than the page holds, and says so.

/** Heading is a column of a list. */
export interface Heading {
  title: string;
  isNumber: boolean;
  /** The description of the column, from the API server or from the author of the CustomResourceDefinition. */
  description: string;
}

/** Entry is an object of a list. */
export interface Entry {
  /** The namespace and the name. */
  key: string;
  namespace: string;
  name: string;
  uid: string;
  /** As many as there are headings. */
  cells: readonly string[];
  isDeleted: boolean;
  createdAt: number | undefined;
}

export interface Listing {
  headings: readonly Heading[];
  /** In the order in which the cluster lists them. */
  rows: readonly Entry[];
  /** How many objects there are beyond the rows; -1: an unknown number. */
  more: number;
  /** Reports that further chunks are on their way. */
  isReading: boolean;
  /** How often the list began again, because the cluster had forgotten the state of the chunks before. */
  restarts: number;
}

/** Selection is which objects of a kind are listed. */
export interface Selection {
  /** Empty for all namespaces. */
  namespace: string;
  labels: string;
  fields: string;
}

const chunk = 500;
export const mostEntries = 5000;
const mostText = 8_000_000;
const mostCell = 500;
const mostHeadings = 40;
const mostTitle = 60;
const mostRestarts = 3;
/** A watch continues in another answer after so many bytes. An object has a megabyte and a half at most. */
const mostStream = 64 * 1024 * 1024;
const mostLine = 4 * 1024 * 1024;
const tick = 20_000;
/** API servers send a bookmark about once a minute. A watch without one for so long may be dead, and is opened again. */
const longestQuiet = 90_000;
/** Changes of so many milliseconds are one. */
const gathering = 250;
const pollPause = 15_000;

interface RawTable {
  kind?: string;
  code?: number;
  message?: string;
  metadata?: { continue?: string; remainingItemCount?: number; resourceVersion?: string };
  columnDefinitions?: { name?: string; type?: string; description?: string; priority?: number }[];
  rows?: { cells?: unknown[]; object?: { metadata?: RawMetadata } }[];
}

interface RawMetadata {
  namespace?: string;
  name?: string;
  uid?: string;
  resourceVersion?: string;
  deletionTimestamp?: string;
  creationTimestamp?: string;
}

const asText = (value: unknown): string =>
  (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "")).slice(0, mostCell);

/** Window is what a page holds of a list. It changes in place; listing returns what it is now. */
class Window {
  #headings: Heading[] = [];
  /** The numbers of the columns that are shown. The others are those of kubectl's --output wide. */
  #columns: number[] = [];
  readonly #rows = new Map<string, Entry>();
  #text = 0;
  #more = 0;
  /** Where the next chunk begins, while there is one. */
  next: string | undefined;
  /** From where a watch continues. */
  version = "";

  constructor(
    readonly restarts: number,
    private readonly most = { entries: mostEntries, text: mostText },
  ) {}

  get isFull(): boolean {
    return this.#rows.size >= this.most.entries || this.#text >= this.most.text;
  }

  #entryOf({ cells = [], object = {} }: NonNullable<RawTable["rows"]>[number]): Entry {
    const metadata = object.metadata ?? {};
    const created = Date.parse(metadata.creationTimestamp ?? "");
    const [namespace, name] = [asText(metadata.namespace), asText(metadata.name)];
    return {
      key: `${namespace}/${name}`,
      namespace,
      name,
      uid: asText(metadata.uid),
      cells: this.#columns.map((column) => asText(cells[column])),
      isDeleted: metadata.deletionTimestamp !== undefined,
      createdAt: Number.isNaN(created) ? undefined : created,
    };
  }

  #keep(entry: Entry) {
    this.#drop(entry.key);
    this.#rows.set(entry.key, entry);
    this.#text += lengthOf(entry);
  }

  #drop(key: string): boolean {
    const entry = this.#rows.get(key);
    if (entry) this.#text -= lengthOf(entry);
    return this.#rows.delete(key);
  }

  /** Adds a chunk of the list. */
  add({ metadata = {}, columnDefinitions = [], rows = [] }: RawTable) {
    if (this.#headings.length === 0) {
      this.#columns = columnDefinitions
        .slice(0, mostHeadings)
        .flatMap(({ priority }, index) => (priority ? [] : [index]));
      this.#headings = this.#columns.map((index) => {
        const { name, type, description } = columnDefinitions[index] ?? {};
        return {
          title: asText(name).slice(0, mostTitle),
          isNumber: type === "integer" || type === "number",
          description: asText(description),
        };
      });
    }
    let left = 0;
    for (const row of rows) {
      if (this.isFull) left += 1;
      else this.#keep(this.#entryOf(row));
    }
    this.version = String(metadata.resourceVersion ?? "");
    const hasMore = Boolean(metadata.continue);
    this.next = hasMore && !this.isFull ? metadata.continue : undefined;
    this.#more = hasMore ? (metadata.remainingItemCount === undefined ? -1 : metadata.remainingItemCount + left) : left;
  }

  /** Applies one event of a watch. Reports whether what is shown has changed; throws if the watch cannot go on. */
  apply(line: Line): boolean {
    const { type, object = {} } = eventOf(line);
    if (type === "ERROR") {
      if (object.code === 410) throw new Forgotten();
      throw new KnownError({ kind: "failed", reason: "", message: asText(object.message), metadata: { origin } });
    }
    const raw = object.rows?.[0];
    const version = raw?.object?.metadata?.resourceVersion ?? object.metadata?.resourceVersion;
    if (version) this.version = String(version);
    if (!raw || type === "BOOKMARK") return false;
    const entry = this.#entryOf(raw);
    const isKnown = this.#rows.has(entry.key);
    if (type === "DELETED") {
      if (!this.#drop(entry.key) && this.#more > 0) this.#more -= 1;
      return true;
    }
    // An object that the page does not hold is among those that it counts.
    if (!isKnown && this.#more !== 0 && type === "MODIFIED") return false;
    if (!isKnown && this.isFull) {
      if (this.#more >= 0) this.#more += 1;
      return true;
    }
    if (isKnown) {
      const old = this.#rows.get(entry.key) as Entry;
      this.#text += lengthOf(entry) - lengthOf(old);
      this.#rows.set(entry.key, entry);
    } else this.#keep(entry);
    return true;
  }

  listing(): Listing {
    return {
      headings: this.#headings,
      rows: [...this.#rows.values()],
      more: this.#more,
      isReading: this.next !== undefined,
      restarts: this.restarts,
    };
  }
}

const lengthOf = ({ key, cells }: Entry) => cells.reduce((sum, cell) => sum + cell.length, key.length + 100);

/** Forgotten says that a watch cannot go on from where it is, so the list has to be read again. */
class Forgotten extends Error {}

const origin = "cluster";

function eventOf(line: Line): { type?: string; object?: RawTable } {
  try {
    return JSON.parse(line.text);
  } catch {
    // A line that is too long to be kept is cut.
    throw new Forgotten();
  }
}

/** Watch is a stream of changes, and how to end it. */
interface Watch {
  lines: AsyncGenerator<Line[]>;
  end: () => void;
}

const mostFirstText = 1_000_000;

/** Returns the first objects of a kind, in one answer, and how many there are beyond them. It follows nothing. */
export async function readFirst(
  { clusters }: Pick<Hub, "clusters">,
  cluster: string,
  kind: Kind,
  { namespace, labels, fields }: Selection,
  signal: AbortSignal,
): Promise<Listing> {
  const window = new Window(0, { entries: chunk, text: mostFirstText });
  const path = resourcePath(groupVersionOf(kind), kind.isNamespaced ? namespace : "", kind.resource);
  const options = query({ labelSelector: labels || undefined, fieldSelector: fields || undefined, limit: chunk });
  window.add(await readJson<RawTable>(clusters, cluster, path + options, signal, asTable));
  return { ...window.listing(), isReading: false };
}

/** Returns the source of the objects of a kind. It holds one stream while it is watched, and none for what has no watch. */
export function listingSource(hub: Hub, cluster: string, kind: Kind, selection: Selection): Source<Listing> {
  const { surroundings: env, clusters } = hub;
  const path = resourcePath(groupVersionOf(kind), kind.isNamespaced ? selection.namespace : "", kind.resource);
  const selectors = { labelSelector: selection.labels || undefined, fieldSelector: selection.fields || undefined };
  const canWatch = kind.verbs.includes("watch");
  let window: Window | undefined;
  let stream: Watch | undefined;

  const read = async (into: Window, signal: AbortSignal) => {
    const options = query({ ...selectors, limit: chunk, continue: into.next });
    into.add(await readJson<RawTable>(clusters, cluster, path + options, signal, asTable));
  };
  const watch = async (version: string, signal: AbortSignal): Promise<Watch> => {
    const own = new AbortController();
    const end = () => own.abort();
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
    const options = { ...selectors, watch: true, allowWatchBookmarks: true, resourceVersion: version };
    const how = { accept: asTable, mostLine };
    return { end, lines: await openStream(clusters, cluster, path + query(options), mostStream, own.signal, how) };
  };

  async function load(signal: AbortSignal): Promise<Listing> {
    stream = undefined;
    if (window && window.next === undefined && canWatch) {
      // What is held is as good as new if the cluster still knows what happened since.
      try {
        stream = await watch(window.version, signal);
        return window.listing();
      } catch (thrown) {
        if (!hasCode(thrown, 410)) throw thrown;
      }
    }
    const first = new Window(0);
    await read(first, signal);
    window = first;
    return first.listing();
  }

  async function* rest(signal: AbortSignal): AsyncGenerator<Listing> {
    while (window?.next !== undefined) {
      try {
        await read(window, signal);
      } catch (thrown) {
        if (!hasCode(thrown, 410) || window.restarts >= mostRestarts) throw thrown;
        const again = new Window(window.restarts + 1);
        await read(again, signal);
        window = again;
      }
      yield window.listing();
    }
  }

  async function* follow(_: Listing, signal: AbortSignal): AsyncGenerator<Listing> {
    yield* rest(signal);
    if (!window) return;
    if (!canWatch) {
      await env.sleep(pollPause, signal);
      return;
    }
    const held = window;
    try {
      stream ??= await watch(held.version, signal);
      yield* changes(held, stream, signal);
    } catch (thrown) {
      if (!hasCode(thrown, 410) && !(thrown instanceof Forgotten)) throw thrown;
      // The next load lists.
      window = undefined;
    }
  }

  async function* changes(held: Window, { lines, end }: Watch, signal: AbortSignal): AsyncGenerator<Listing> {
    let heardAt = env.now();
    let isChanged = false;
    let wake = Promise.withResolvers<void>();
    const pump = async () => {
      for await (const some of lines) {
        heardAt = env.now();
        for (const line of some) if (line.text !== "" && held.apply(line)) isChanged = true;
        if (isChanged) wake.resolve();
      }
    };
    const ended = pump().then(() => true as const);
    // The failure of a pump for which nobody waits any more is not one of the page.
    ended.catch(() => {});
    try {
      while (!signal.aborted) {
        const waiting = new AbortController();
        const quiet = env.sleep(tick, waiting.signal);
        const isEnded = await Promise.race([ended, wake.promise, quiet]).finally(() => waiting.abort());
        if (isEnded) break;
        if (isChanged) await env.sleep(gathering, signal);
        else if (env.now() - heardAt > longestQuiet) break;
        isChanged = false;
        wake = Promise.withResolvers();
        yield held.listing();
      }
      if (isChanged) yield held.listing();
    } finally {
      end();
    }
  }

  return { load, follow };
}
