// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Failure, failureOf } from "../hub/failure.ts";
import type { Hub } from "../hub/hub.ts";
import { permit } from "../hub/permit.ts";
import { hasCode } from "./api.ts";
import { findKind, type Kind } from "./discovery.ts";
import { type Entry, type Heading, type Listing, readFirst, type Selection } from "./listing.ts";
import { clusterPath } from "./names.ts";

// The objects of one kind in several clusters. Each cluster is asked once, a few at a time, and each has an answer of its
// own: one that is slow or refuses holds up no other. Nothing is followed.

/** A page asks so many clusters at most, and so many at once. */
export const mostClusters = 25;
const atOnce = 4;
/** A cluster that has not answered by then is said not to, and the next one is asked. */
const patience = 20_000;

const aliases: Record<string, string> = {
  po: "pods",
  no: "nodes",
  ns: "namespaces",
  svc: "services",
  cm: "configmaps",
  pvc: "persistentvolumeclaims",
  pv: "persistentvolumes",
  sa: "serviceaccounts",
  ev: "events",
  deploy: "deployments.apps",
  deployments: "deployments.apps",
  sts: "statefulsets.apps",
  statefulsets: "statefulsets.apps",
  ds: "daemonsets.apps",
  daemonsets: "daemonsets.apps",
  rs: "replicasets.apps",
  replicasets: "replicasets.apps",
  jobs: "jobs.batch",
  cj: "cronjobs.batch",
  cronjobs: "cronjobs.batch",
  ing: "ingresses.networking.k8s.io",
  ingresses: "ingresses.networking.k8s.io",
  netpol: "networkpolicies.networking.k8s.io",
  networkpolicies: "networkpolicies.networking.k8s.io",
  hpa: "horizontalpodautoscalers.autoscaling",
  horizontalpodautoscalers: "horizontalpodautoscalers.autoscaling",
  pdb: "poddisruptionbudgets.policy",
  poddisruptionbudgets: "poddisruptionbudgets.policy",
  sc: "storageclasses.storage.k8s.io",
  storageclasses: "storageclasses.storage.k8s.io",
  crd: "customresourcedefinitions.apiextensions.k8s.io",
  customresourcedefinitions: "customresourcedefinitions.apiextensions.k8s.io",
};

/** Returns a kind with its group, from what a person types, such as "deploy". */
export function fullKind(typed: string): string {
  const kind = typed.trim().toLowerCase();
  return Object.hasOwn(aliases, kind) ? (aliases[kind] as string) : kind;
}

/** The kinds that a field suggests. */
export const commonKinds: readonly string[] = [
  ...["pods", "nodes", "namespaces", "services", "configmaps", "persistentvolumeclaims", "events"],
  ...new Set(Object.values(aliases).filter((kind) => kind.includes("."))),
];

/** Returns the group and the resource of a kind as kubectl writes it. */
export function partsOf(kind: string): Pick<Kind, "group" | "resource"> {
  const dot = kind.indexOf(".");
  return dot < 0 ? { group: "", resource: kind } : { group: kind.slice(dot + 1), resource: kind.slice(0, dot) };
}

/** Answer is how far one cluster is. */
export interface Answer {
  /** The cluster, as people name it. */
  cluster: string;
  state: "waiting" | "asking" | "done" | "noKind" | "late" | "refused" | "failed";
  failure: Failure | undefined;
  count: number;
  /** How many objects it has beyond those that were read; -1: an unknown number. */
  more: number;
  /** When it has answered. */
  at: number | undefined;
}

/** Found is an object, and the cluster that has it. */
export interface Found extends Entry {
  cluster: string;
  kind: Kind;
}

export interface Gathered {
  answers: readonly Answer[];
  /** The columns of the first cluster that has answered. */
  headings: readonly Heading[];
  rows: readonly Found[];
  isRunning: boolean;
}

/** Returns the cells of a row under the headings of another answer. Another version of a kind may have other columns. */
function cellsUnder(headings: readonly Heading[], listing: Listing, cells: readonly string[]): readonly string[] {
  return headings.map(({ title }) => cells[listing.headings.findIndex((each) => each.title === title)] ?? "");
}

/** Many asks several clusters for the objects of one kind. It is asked once, and stopped when nobody looks any more. */
export class Many {
  readonly #ended = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #answers: Answer[];
  #rows: readonly Found[] = [];
  #headings: readonly Heading[] | undefined;
  /** The kind as the first cluster has it that was asked. Most others have the same. */
  #kind: Kind | undefined;
  #now: Gathered;

  constructor(
    private readonly hub: Hub,
    clusters: readonly string[],
    private readonly kind: string,
    private readonly selection: Selection,
  ) {
    this.#answers = clusters.slice(0, mostClusters).map((cluster) => ({
      cluster,
      state: "waiting",
      failure: undefined,
      count: 0,
      more: 0,
      at: undefined,
    }));
    this.#now = this.#state(this.#answers.length > 0);
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  current = (): Gathered => this.#now;

  /** Aborts all requests. */
  stop = () => this.#ended.abort();

  async run(): Promise<void> {
    let next = 0;
    const work = async () => {
      while (next < this.#answers.length && !this.#ended.signal.aborted) {
        const index = next;
        next += 1;
        await this.#askOne(index);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    if (!this.#ended.signal.aborted) this.#say(false);
  }

  #state(isRunning: boolean): Gathered {
    return { answers: [...this.#answers], headings: this.#headings ?? [], rows: this.#rows, isRunning };
  }

  #say(isRunning: boolean) {
    this.#now = this.#state(isRunning);
    for (const listener of this.#listeners) listener();
  }

  #set(index: number, change: Partial<Answer>) {
    if (this.#ended.signal.aborted) return;
    this.#answers[index] = { ...(this.#answers[index] as Answer), ...change };
    this.#say(true);
  }

  async #askOne(index: number) {
    const { cluster } = this.#answers[index] as Answer;
    const own = new AbortController();
    const end = () => own.abort();
    this.#ended.signal.addEventListener("abort", end);
    this.#set(index, { state: "asking" });
    const { now, sleep } = this.hub.surroundings;
    const rested = new AbortController();
    const late = sleep(patience, rested.signal).then(() => "late" as const);
    try {
      const answer = await Promise.race([this.#list(cluster, own.signal), late]);
      if (answer === "late") this.#set(index, { state: "late", at: now() });
      else if (answer === undefined) this.#set(index, { state: "noKind", at: now() });
      else {
        const { listing, kind } = answer;
        this.#headings ??= listing.headings;
        const headings = this.#headings;
        const rows = listing.rows.map((row): Found => {
          const cells = listing.headings === headings ? row.cells : cellsUnder(headings, listing, row.cells);
          return { ...row, cells, key: `${cluster} ${row.key}`, cluster, kind };
        });
        this.#rows = [...this.#rows, ...rows];
        this.#set(index, { state: "done", count: rows.length, more: listing.more, at: now() });
      }
    } catch (thrown) {
      const failure = failureOf(thrown);
      this.#set(index, { state: failure.kind === "refused" ? "refused" : "failed", failure, at: now() });
    } finally {
      rested.abort();
      end();
      this.#ended.signal.removeEventListener("abort", end);
    }
  }

  /** Returns what a cluster has of the kind, or undefined if it has no such kind. What the hub refuses is not tried. */
  async #list(cluster: string, signal: AbortSignal): Promise<{ listing: Listing; kind: Kind } | undefined> {
    const { hub, selection } = this;
    const { group: apiGroup, resource } = partsOf(this.kind);
    const path = clusterPath(cluster, "");
    await permit(hub, { cluster, verb: "list", apiGroup, resource, namespace: selection.namespace });
    signal.throwIfAborted();
    const known = this.#kind;
    if (known) {
      try {
        return { listing: await readFirst(hub, path, known, selection, signal), kind: known };
      } catch (thrown) {
        // This cluster may have another version of the kind, or none.
        if (!hasCode(thrown, 404)) throw thrown;
      }
    }
    const kind = await findKind(hub.clusters, path, { group: apiGroup, resource }, signal);
    if (!kind) return undefined;
    this.#kind ??= kind;
    return { listing: await readFirst(hub, path, kind, selection, signal), kind };
  }
}
