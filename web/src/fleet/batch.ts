// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Failure, failureOf } from "../hub/failure.ts";
import { backoff, type Surroundings } from "../hub/live.ts";

/** How many calls of a batch run at once, and how many milliseconds are between the beginnings of two. */
export const width = 4;
const gap = 50;
/** How often a call is tried while the hub asks to wait, and while it does not answer. */
const busyTries = 20;
const silentTries = 3;

export interface Failed<Item> {
  item: Item;
  failure: Failure;
}

export interface Progress<Item> {
  state: "running" | "stopping" | "stopped" | "ended";
  total: number;
  done: number;
  failed: readonly Failed<Item>[];
  /** Those that were not tried. While it runs, also those that are being tried. */
  left: number;
  /** The hub has asked to wait. */
  waits: boolean;
}

/**
 * Batch does the same to many items: some at once, no faster than the hub takes them, and each at least until the hub has
 * said yes or no. When the hub asks to wait, all wait. A stop lets the calls that run come to their end, so that of every
 * item it is known whether it was done.
 */
export class Batch<Item> {
  readonly #items: readonly Item[];
  readonly #act: (item: Item) => Promise<unknown>;
  readonly #env: Pick<Surroundings, "sleep" | "random">;
  readonly #listeners = new Set<() => void>();
  readonly #stop = new AbortController();
  #progress: Progress<Item>;
  #next = 0;
  #untried: Item[] = [];
  #turn: Promise<void> = Promise.resolve();
  #hold: Promise<void> | undefined;

  constructor(
    items: readonly Item[],
    act: (item: Item) => Promise<unknown>,
    env: Pick<Surroundings, "sleep" | "random">,
  ) {
    this.#items = items;
    this.#act = act;
    this.#env = env;
    const total = items.length;
    this.#progress = { state: "running", total, done: 0, failed: [], left: total, waits: false };
  }

  readonly current = (): Progress<Item> => this.#progress;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Runs to the end, or until it is stopped. Call it once. */
  async run(): Promise<Progress<Item>> {
    await Promise.all(Array.from({ length: width }, () => this.#work()));
    this.#set({ state: this.#stop.signal.aborted ? "stopped" : "ended", waits: false });
    return this.#progress;
  }

  readonly stop = (): void => {
    if (this.#progress.state === "running") this.#set({ state: "stopping" });
    this.#stop.abort();
  };

  /** Returns the items that were neither done nor failed, once it has come to its end. */
  untried(): readonly Item[] {
    return [...this.#untried, ...this.#items.slice(this.#next)];
  }

  #set(change: Partial<Progress<Item>>) {
    const next = { ...this.#progress, ...change };
    this.#progress = { ...next, left: next.total - next.done - next.failed.length };
    for (const listener of this.#listeners) listener();
  }

  async #work() {
    while (!this.#stop.signal.aborted && this.#next < this.#items.length) {
      const item = this.#items[this.#next] as Item;
      this.#next += 1;
      await this.#one(item);
    }
  }

  /** Waits until the next call may begin. */
  async #pace() {
    const turn = this.#turn;
    this.#turn = turn.then(() => this.#env.sleep(gap, this.#stop.signal));
    await turn;
    while (this.#hold && !this.#stop.signal.aborted) await this.#hold;
  }

  #wait(ms: number) {
    this.#hold ??= this.#env.sleep(ms, this.#stop.signal).then(() => {
      this.#hold = undefined;
      this.#set({ waits: false });
    });
    this.#set({ waits: true });
  }

  async #one(item: Item) {
    for (let tries = 0; ; tries += 1) {
      await this.#pace();
      if (this.#stop.signal.aborted) {
        this.#untried.push(item);
        return;
      }
      try {
        await this.#act(item);
        this.#set({ done: this.#progress.done + 1 });
        return;
      } catch (thrown) {
        const failure = failureOf(thrown);
        const most = failure.kind === "busy" ? busyTries : failure.kind === "unreachable" ? silentTries : 0;
        if (tries >= most) {
          this.#set({ failed: [...this.#progress.failed, { item, failure }] });
          return;
        }
        this.#wait(backoff(tries, this.#env.random(), failure.retryAfter));
      }
    }
  }
}
