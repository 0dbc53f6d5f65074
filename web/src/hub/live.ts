// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useState, useSyncExternalStore } from "react";
import { type Failure, failureOf, isPassing } from "./failure.ts";

// Live data: a list by an ordinary call, and then its changes by a stream.
//
// A store holds the last value through every failure, with the time at which the hub confirmed it, so that a page can
// show it as old and never as new. It has these states:
//
//   loading       there is no value yet
//   live          the stream is open
//   paused        the tab is hidden for a while, so nothing runs
//   reconnecting  the stream or the call failed in a way that may pass; the store tries again
//   stopped       the hub refused; only retry() or another source continues
//
// A store works while somebody subscribes to it, and no longer.

export type Link = "loading" | "live" | "paused" | "reconnecting" | "stopped";

export interface Live<T> {
  value: T | undefined;
  /** When the hub last confirmed the value. */
  asOf: number | undefined;
  link: Link;
  failure: Failure | undefined;
}

/** Source is what a store shows. */
export interface Source<T> {
  load: (signal: AbortSignal) => Promise<T>;
  /**
   * Yields each next value, and the same one again for a heartbeat. A source that ends is opened again at once, as when
   * the hub closes a stream in good order. Without it the value is loaded once.
   */
  follow?: (value: T, signal: AbortSignal) => AsyncIterable<T>;
}

/** Returns a source of what has no stream: it is loaded again after each pause. */
export const polled = <T>(
  load: (signal: AbortSignal) => Promise<T>,
  pause: number,
  env: Pick<Surroundings, "sleep">,
): Source<T> => ({
  load,
  async *follow(_, signal) {
    while (true) {
      await env.sleep(pause, signal);
      if (signal.aborted) return;
      yield await load(signal);
    }
  },
});

/** Surroundings are what a store knows of the browser. */
export interface Surroundings {
  now: () => number;
  random: () => number;
  /** Waits, or returns early when the signal ends. */
  sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  isHidden: () => boolean;
  /** Calls the listener when the tab is hidden or shown. */
  onVisibility: (listener: () => void) => () => void;
  /** Calls the listener when the network comes back. */
  onOnline: (listener: () => void) => () => void;
  /** Calls the listener when there is a new access token. */
  onRenewal: (listener: () => void) => () => void;
}

const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });

const listen = (target: EventTarget, event: string) => (listener: () => void) => {
  target.addEventListener(event, listener);
  return () => target.removeEventListener(event, listener);
};

export const browserSurroundings = (): Surroundings => ({
  now: Date.now,
  random: Math.random,
  sleep,
  isHidden: () => document.hidden,
  onVisibility: listen(document, "visibilitychange"),
  onOnline: listen(window, "online"),
  onRenewal: () => () => {},
});

const firstWait = 1000;
const longestWait = 30_000;
const patience = 30_000;

/**
 * How long a hub that works is never silent: its streams bring a heartbeat every 20 s. One that is frozen, or behind a
 * network that drops packets, ends no connection.
 */
const silence = 45_000;

/**
 * Returns how long to wait before the next try: it doubles up to half a minute, and a random half of it keeps the tabs
 * of a fleet from coming back at once. The hub's own wish is never undercut.
 */
export function backoff(failures: number, random: number, wish = 0): number {
  const full = Math.min(longestWait, firstWait * 2 ** Math.min(failures, 16));
  return Math.max(wish, full / 2 + (full / 2) * random);
}

export class LiveStore<T> {
  #state: Live<T> = { value: undefined, asOf: undefined, link: "loading", failure: undefined };
  #source: Source<T>;
  readonly #env: Surroundings;
  readonly #listeners = new Set<() => void>();
  #run: AbortController | undefined;
  /** Ends the present try, after which the next one begins. */
  #attempt: AbortController | undefined;

  constructor(source: Source<T>, env: Surroundings) {
    this.#source = source;
    this.#env = env;
  }

  readonly current = (): Live<T> => this.#state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (!this.#run) this.#start();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) {
        this.#run?.abort();
        this.#run = undefined;
      }
    };
  };

  /** Tries again now, also after a refusal. */
  readonly retry = (): void => {
    if (!this.#run) return;
    this.#run.abort();
    this.#set({ link: this.#state.value === undefined ? "loading" : "reconnecting", failure: undefined });
    this.#start();
  };

  /** Continues with another source. The value stays until the new source has one, because both show the same thing. */
  readonly replace = (source: Source<T>): void => {
    this.#source = source;
    if (this.#state.link === "stopped") this.retry();
    else this.#attempt?.abort();
  };

  #set(change: Partial<Live<T>>) {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }

  #start() {
    const run = new AbortController();
    this.#run = run;
    const again = () => this.#attempt?.abort();
    const stops = [
      this.#env.onOnline(again),
      this.#env.onRenewal(again),
      this.#env.onVisibility(() => {
        if (!this.#env.isHidden() && this.#state.link !== "live") again();
      }),
    ];
    run.signal.addEventListener("abort", () => {
      for (const stop of stops) stop();
      this.#attempt?.abort();
    });
    void this.#loop(run.signal);
  }

  async #loop(run: AbortSignal) {
    let failures = 0;
    while (!run.aborted) {
      const attempt = new AbortController();
      this.#attempt = attempt;
      if (this.#env.isHidden() && this.#state.value !== undefined) {
        await this.#untilShown(attempt.signal);
        continue;
      }
      const source = this.#source;
      const unwatch = this.#abortWhenHidden(attempt);
      const call = new AbortController();
      attempt.signal.addEventListener("abort", () => call.abort());
      try {
        const take = (value: T) => {
          if (attempt.signal.aborted || run.aborted) return;
          this.#set({ value, asOf: this.#env.now(), link: "live", failure: undefined });
        };
        const value = await this.#heard(source.load(call.signal));
        take(value);
        if (!source.follow) {
          failures = 0;
          await untilAborted(attempt.signal);
          continue;
        }
        const stream = source.follow(value, call.signal)[Symbol.asyncIterator]();
        for (let next = await this.#heard(stream.next()); !next.done; next = await this.#heard(stream.next())) {
          // Only a stream that delivers ends a row of failures: the call before it may succeed each time.
          failures = 0;
          take(next.value);
        }
        // A stream that ends at once, again and again, is a failure in disguise.
        await this.#env.sleep(firstWait, attempt.signal);
      } catch (thrown) {
        if (run.aborted) return;
        if (attempt.signal.aborted) continue;
        call.abort(); // after a silence it still runs
        const failure = failureOf(thrown);
        // A stream ends with its token. The next try has another one; if the session has ended, the page is left anyway.
        if (!isPassing(failure) && failure.kind !== "signedOut") {
          this.#set({ link: "stopped", failure });
          return;
        }
        this.#set({ link: "reconnecting", failure });
        await this.#env.sleep(backoff(failures, this.#env.random(), failure.retryAfter), attempt.signal);
        failures += 1;
      } finally {
        unwatch();
      }
    }
  }

  /** Returns what the hub answers, or fails if it is silent for too long. */
  #heard<V>(answer: Promise<V>): Promise<V> {
    return new Promise((resolve, reject) => {
      const waiting = new AbortController();
      answer.then(resolve, reject).finally(() => waiting.abort());
      void this.#env.sleep(silence, waiting.signal).then(() => {
        if (!waiting.signal.aborted) reject(new ConnectError("the hub has fallen silent", Code.Unavailable));
      });
    });
  }

  /** Ends the try when the tab has been hidden for a while. A hidden tab costs the hub nothing. */
  #abortWhenHidden(attempt: AbortController): () => void {
    let hidden: AbortController | undefined;
    const look = () => {
      hidden?.abort();
      hidden = undefined;
      if (!this.#env.isHidden()) return;
      const waiting = new AbortController();
      hidden = waiting;
      void this.#env.sleep(patience, waiting.signal).then(() => {
        if (!waiting.signal.aborted) attempt.abort();
      });
    };
    const stop = this.#env.onVisibility(look);
    look();
    return () => {
      stop();
      hidden?.abort();
    };
  }

  async #untilShown(signal: AbortSignal) {
    this.#set({ link: "paused" });
    await new Promise<void>((resolve) => {
      const stop = this.#env.onVisibility(done);
      function done() {
        stop();
        signal.removeEventListener("abort", done);
        resolve();
      }
      signal.addEventListener("abort", done);
      if (signal.aborted) done();
    });
  }
}

const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });

/**
 * Shows a source for as long as the component is there. Another key is another thing: its value begins again. What a
 * cluster answers says nothing about the hub, so it is apart: the header does not report it, and its page does.
 */
export function useLive<T>(
  key: string,
  source: () => Source<T>,
  env: Surroundings,
  isApart = false,
): Live<T> & { store: LiveStore<T> } {
  const [held, setHeld] = useState(() => ({ key, store: new LiveStore(source(), env) }));
  let { store } = held;
  if (held.key !== key) {
    store = new LiveStore(source(), env);
    setHeld({ key, store });
  }
  const live = useSyncExternalStore(store.subscribe, store.current);
  useReport(live, isApart);
  return { ...live, store };
}

// What the header says about the connection: the worst of the stores that are shown.

// A store that the hub refused is not among them: the hub answers, and the page says what.
const order: Link[] = ["live", "loading", "paused", "reconnecting"];
const shown = new Map<symbol, Live<unknown>>();
const watchers = new Set<() => void>();
let worst: Live<unknown> | undefined;

function settle() {
  let next: Live<unknown> | undefined;
  for (const live of shown.values()) {
    if (live.link !== "stopped" && (!next || order.indexOf(live.link) > order.indexOf(next.link))) next = live;
  }
  const isSame = next?.link === worst?.link && next?.asOf === worst?.asOf;
  worst = next;
  if (!isSame) for (const watcher of watchers) watcher();
}

function useReport(live: Live<unknown>, isApart: boolean) {
  const [id] = useState(() => Symbol());
  useEffect(() => {
    if (isApart) return;
    shown.set(id, live);
    settle();
  }, [id, live, isApart]);
  useEffect(
    () => () => {
      shown.delete(id);
      settle();
    },
    [id],
  );
}

const subscribeToWorst = (watcher: () => void) => {
  watchers.add(watcher);
  return () => void watchers.delete(watcher);
};

/** Returns the state of the connection, or undefined while the page shows nothing live. */
export const useConnection = (): Live<unknown> | undefined => useSyncExternalStore(subscribeToWorst, () => worst);
