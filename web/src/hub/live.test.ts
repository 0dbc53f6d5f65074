// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { backoff, browserSurroundings, type Link, LiveStore, type Source, type Surroundings } from "./live.ts";

// Time is the test's: nothing here waits for a clock.

class Place implements Surroundings {
  hidden = false;
  readonly now = Date.now;
  readonly random = () => 1;
  readonly #listeners = {
    visibility: new Set<() => void>(),
    online: new Set<() => void>(),
    renewal: new Set<() => void>(),
  };
  readonly sleep = (ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  readonly isHidden = () => this.hidden;
  readonly #on = (set: Set<() => void>) => (listener: () => void) => {
    set.add(listener);
    return () => void set.delete(listener);
  };
  readonly onVisibility = this.#on(this.#listeners.visibility);
  readonly onOnline = this.#on(this.#listeners.online);
  readonly onRenewal = this.#on(this.#listeners.renewal);
  fire(what: "visibility" | "online" | "renewal") {
    for (const listener of [...this.#listeners[what]]) listener();
  }
  show(isShown: boolean) {
    this.hidden = !isShown;
    this.fire("visibility");
  }
  get isClean() {
    return Object.values(this.#listeners).every((set) => set.size === 0);
  }
}

/** A hub that counts its calls, and whose stream the test feeds. */
class Fake {
  loads = 0;
  streams = 0;
  fail: unknown;
  #push: ((value: string) => void) | undefined;
  #fail: ((error: unknown) => void) | undefined;
  readonly source: Source<string> = {
    load: async () => {
      this.loads += 1;
      if (this.fail) throw this.fail;
      return `value ${this.loads}`;
    },
    follow: (_, signal) => this.#follow(signal),
  };
  async *#follow(signal: AbortSignal) {
    this.streams += 1;
    while (!signal.aborted) {
      yield await new Promise<string>((resolve, reject) => {
        this.#push = resolve;
        this.#fail = reject;
        signal.addEventListener("abort", () => reject(new ConnectError("aborted", Code.Canceled)));
      });
    }
  }
  push(value: string) {
    this.#push?.(value);
  }
  breakStream(error: unknown) {
    this.#fail?.(error);
  }
}

const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function start(fail?: unknown) {
  const place = new Place();
  const fake = new Fake();
  fake.fail = fail;
  const store = new LiveStore(fake.source, place);
  const links: Link[] = [];
  const stop = store.subscribe(() => {
    const { link } = store.current();
    if (links.at(-1) !== link) links.push(link);
  });
  return { place, fake, store, links, stop };
}

test("it lists, follows, and stops with its last subscriber", async () => {
  const { place, fake, store, stop } = start();
  await settle();
  expect(store.current()).toMatchObject({ value: "value 1", link: "live" });
  fake.push("value of the stream");
  await settle();
  expect(store.current().value).toBe("value of the stream");
  stop();
  await settle();
  expect(place.isClean).toBe(true);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(fake.loads).toBe(1);
});

test("a heartbeat makes the value new again", async () => {
  const { fake, store } = start();
  await settle();
  const before = store.current().asOf ?? 0;
  await vi.advanceTimersByTimeAsync(20_000);
  fake.push("value 1");
  await settle();
  expect(store.current().asOf).toBe(before + 20_000);
});

test("a broken stream keeps the value with its time, and is tried again", async () => {
  const { fake, store } = start();
  await settle();
  const { asOf } = store.current();
  fake.fail = new ConnectError("", Code.Unavailable);
  fake.breakStream(fake.fail);
  await settle();
  expect(store.current()).toMatchObject({ value: "value 1", asOf, link: "reconnecting" });
  fake.fail = undefined;
  await vi.advanceTimersByTimeAsync(1000);
  expect(store.current()).toMatchObject({ value: "value 2", link: "live", failure: undefined });
});

test("the network's return ends the wait", async () => {
  const { place, fake, store } = start(new ConnectError("", Code.Unavailable));
  await settle();
  await vi.advanceTimersByTimeAsync(60_000);
  const { loads } = fake;
  fake.fail = undefined;
  place.fire("online");
  await settle();
  expect(fake.loads).toBe(loads + 1);
  expect(store.current().link).toBe("live");
});

test("a hub that falls silent without an end is old, and is asked again", async () => {
  const { fake, store, stop } = start();
  await settle();
  fake.push("beat");
  await settle();
  await vi.advanceTimersByTimeAsync(44_000);
  expect(store.current().link).toBe("live");
  await vi.advanceTimersByTimeAsync(1500);
  expect(store.current()).toMatchObject({ value: "beat", link: "reconnecting", failure: { kind: "unreachable" } });
  await vi.advanceTimersByTimeAsync(1000);
  expect(fake.streams).toBe(2);
  expect(store.current()).toMatchObject({ value: "value 2", link: "live" });
  stop();
});

test("a refusal stops it, until a person tries again", async () => {
  const { fake, store } = start(new ConnectError("ada may not", Code.PermissionDenied));
  await settle();
  expect(store.current()).toMatchObject({ link: "stopped", failure: { kind: "refused" } });
  await vi.advanceTimersByTimeAsync(600_000);
  expect(fake.loads).toBe(1);
  fake.fail = undefined;
  store.retry();
  await settle();
  expect(store.current()).toMatchObject({ value: "value 2", link: "live" });
});

test("a stream whose token has ended is opened again with another one", async () => {
  const { fake, store, links } = start();
  await settle();
  fake.breakStream(new ConnectError("the access token ended", Code.Unauthenticated));
  await vi.advanceTimersByTimeAsync(1000);
  expect(store.current()).toMatchObject({ value: "value 2", link: "live", failure: undefined });
  expect(fake.streams).toBe(2);
  expect(links).toEqual(["live", "reconnecting", "live"]);
});

test("a hidden tab drops its stream after a while, and resumes when it is shown", async () => {
  const { place, fake, store, links } = start();
  await settle();
  place.show(false);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(store.current().link).toBe("live");
  await vi.advanceTimersByTimeAsync(2000);
  expect(store.current()).toMatchObject({ link: "paused", value: "value 1" });
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(fake.loads).toBe(1);
  place.show(true);
  await settle();
  expect(store.current()).toMatchObject({ link: "live", value: "value 2" });
  expect(links).toEqual(["live", "paused", "live"]);
});

test("a tab that is hidden for a moment keeps its stream", async () => {
  const { place, fake } = start();
  await settle();
  place.show(false);
  await vi.advanceTimersByTimeAsync(10_000);
  place.show(true);
  for (let beats = 0; beats < 3; beats++) {
    await vi.advanceTimersByTimeAsync(20_000);
    fake.push("beat");
  }
  await settle();
  expect(fake.streams).toBe(1);
});

test("a new access token opens the stream again, which nobody sees", async () => {
  const { place, fake, links } = start();
  await settle();
  place.fire("renewal");
  await settle();
  expect(fake.streams).toBe(2);
  expect(links).toEqual(["live"]);
});

test("another source of the same thing keeps the value until it has one", async () => {
  const { fake, store } = start();
  await settle();
  store.replace({ load: async () => "of the other" });
  expect(store.current().value).toBe("value 1");
  await settle();
  expect(store.current().value).toBe("of the other");
  expect(fake.streams).toBe(1);
});

test("a stream that breaks each time waits longer each time", async () => {
  const { fake } = start();
  fake.source.follow = () => ({
    [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new ConnectError("", Code.Unavailable)) }),
  });
  await settle();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(fake.loads).toBeLessThan(8);
});

test("the wait doubles up to half a minute, with a random half, and never undercuts the hub's wish", () => {
  expect([0, 1, 2, 5, 60].map((failures) => backoff(failures, 1))).toEqual([1000, 2000, 4000, 30_000, 30_000]);
  expect(backoff(3, 0)).toBe(4000);
  expect(backoff(0, 0, 5000)).toBe(5000);
});

test("a wait ends early with its signal", async () => {
  vi.stubGlobal("document", new EventTarget());
  vi.stubGlobal("window", new EventTarget());
  const ended = new AbortController();
  const waiting = browserSurroundings().sleep(1e9, ended.signal);
  ended.abort();
  await waiting;
  expect(vi.getTimerCount()).toBe(0);
  vi.unstubAllGlobals();
});
