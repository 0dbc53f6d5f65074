// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SessionService } from "../gen/leat/fleet/v1/session_pb";
import { browserTabs, type Tabs } from "./tabs.ts";
import { createTokens } from "./token.ts";

const life = 300_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A browser, whose tabs wait for one another and hear each other's words after some milliseconds. */
class Browser {
  said: unknown[] = [];
  readonly #hearers: ((from: Tabs, word: unknown) => void)[] = [];
  #last: Promise<unknown> = Promise.resolve();
  #running = 0;
  constructor(
    readonly delay: number,
    readonly hasLocks = true,
  ) {}
  tab(): Tabs {
    const tab: Tabs = {
      alone: (work) => {
        if (!this.hasLocks) return work(false);
        const hasWaited = this.#running > 0;
        this.#running += 1;
        const run = this.#last.then(() => work(hasWaited));
        this.#last = run
          .catch(() => {})
          .then(() => {
            this.#running -= 1;
          });
        return run;
      },
      tell: (word) => {
        this.said.push(word);
        for (const hear of this.#hearers) setTimeout(() => hear(tab, word), this.delay);
      },
      onTold: (listener) => void this.#hearers.push((from, word) => from !== tab && listener(word)),
    };
    return tab;
  }
}

function start({ tabs = 3, delay = 5, hasLocks = true, random = (): number => 0.5 } = {}) {
  const hub = { exchanges: 0, signOuts: 0, session: "s1", person: "ada", fail: undefined as unknown };
  const transport = createRouterTransport(({ service }) => {
    service(SessionService, {
      async createAccessToken() {
        hub.exchanges += 1;
        const n = hub.exchanges;
        await new Promise((resolve) => setTimeout(resolve, 20));
        if (hub.fail) throw hub.fail;
        const expireTime = timestampFromMs(Date.now() + life);
        return { accessToken: `access-${n}`, expireTime, session: { id: hub.session, person: hub.person } };
      },
      signIn: () => ({}),
      signOut: () => {
        hub.signOuts += 1;
        hub.fail = new ConnectError("ended", Code.Unauthenticated);
        return {};
      },
    });
  });
  const browser = new Browser(delay, hasLocks);
  const sessions = createClient(SessionService, transport);
  const all = Array.from({ length: tabs }, () => createTokens({ sessions, tabs: browser.tab(), random }));
  return { hub, browser, all };
}

async function signedIn(options?: Parameters<typeof start>[0]) {
  const started = start(options);
  for (const tokens of started.all) {
    const resumed = tokens.resume();
    await vi.advanceTimersByTimeAsync(30);
    await resumed;
  }
  started.hub.exchanges = 0;
  return started;
}

const valuesOf = async (all: { token: () => Promise<string> }[]) =>
  new Set(await Promise.all(all.map((t) => t.token())));

test("one tab renews the token for all, and every tab opens its streams again", async () => {
  const { hub, all } = await signedIn();
  const renewed = vi.fn();
  for (const tokens of all) tokens.onRenewal(renewed);
  await vi.advanceTimersByTimeAsync(life * 0.82);
  expect(hub.exchanges).toBe(1);
  expect(renewed).toHaveBeenCalledTimes(3);
  expect((await valuesOf(all)).size).toBe(1);
  // The tab that fetched it goes first again.
  await vi.advanceTimersByTimeAsync(life * 0.82);
  expect(hub.exchanges).toBe(2);
});

test.each([1, 400])(
  "tabs that need a token at the same time ask the hub once, with words that take %i ms",
  async (delay) => {
    const { hub, all } = await signedIn({ delay });
    // As after a night: each token has ended, and no timer has run.
    vi.setSystemTime(Date.now() + life * 2);
    const asked = valuesOf(all);
    await vi.advanceTimersByTimeAsync(3000);
    expect((await asked).size).toBe(1);
    expect(hub.exchanges).toBe(1);
  },
);

test("a tab whose answer does not come renews by itself", async () => {
  const { hub, all } = await signedIn({ tabs: 2, delay: 1e9 });
  vi.setSystemTime(Date.now() + life * 2);
  const asked = valuesOf(all);
  await vi.advanceTimersByTimeAsync(3000);
  expect((await asked).size).toBe(2);
  expect(hub.exchanges).toBe(2);
});

test("without locks each tab is on its own", async () => {
  const { hub, all } = await signedIn({ hasLocks: false, delay: 1e9 });
  await vi.advanceTimersByTimeAsync(life * 0.99);
  expect(hub.exchanges).toBe(3);
  expect((await valuesOf(all)).size).toBe(3);
});

test("a tab that is closed is followed by another one", async () => {
  let spread = 0;
  const { hub, browser, all } = await signedIn({ random: () => spread++ / 10 });
  const closed = browser.tab();
  closed.tell({ kind: "token", session: "s1", token: "given", endsAt: Date.now() + life });
  await vi.advanceTimersByTimeAsync(life * 0.84);
  expect(await valuesOf(all)).toEqual(new Set(["given"]));
  expect(hub.exchanges).toBe(0);
  await vi.advanceTimersByTimeAsync(life * 0.12);
  expect(hub.exchanges).toBe(1);
  expect((await valuesOf(all)).size).toBe(1);
});

test("signing out in one tab signs the others out at once", async () => {
  const { hub, all } = await signedIn();
  const signOut = all[0]?.signOut();
  expect(all[0]?.current()).toEqual({ state: "out", wasIn: false });
  await vi.advanceTimersByTimeAsync(5);
  await signOut;
  for (const tokens of all.slice(1)) {
    expect(tokens.current()).toEqual({ state: "out", wasIn: true });
    await expect(tokens.token()).rejects.toMatchObject({ code: Code.Unauthenticated });
  }
  expect(hub.signOuts).toBe(1);
  await vi.advanceTimersByTimeAsync(life * 2);
  expect(hub.exchanges).toBe(0);
});

test("signing in in one tab signs in those that wait for it", async () => {
  const { hub, all } = start();
  hub.fail = new ConnectError("no session", Code.Unauthenticated);
  const resumed = Promise.all(all.map((tokens) => tokens.resume()));
  await vi.advanceTimersByTimeAsync(30);
  expect(await resumed).toEqual([false, false, false]);
  hub.fail = undefined;
  const signIn = all[2]?.signIn({ case: "apiToken", value: "leat_secret" });
  await vi.advanceTimersByTimeAsync(60);
  await signIn;
  for (const tokens of all) expect(tokens.current()).toMatchObject({ state: "in", person: { name: "ada" } });
});

test("a tab of another person begins again, and keeps nothing", async () => {
  const { hub, all } = await signedIn({ tabs: 2 });
  Object.assign(hub, { session: "s2", person: "grace" });
  const signIn = all[0]?.signIn({ case: "apiToken", value: "leat_other" });
  await vi.advanceTimersByTimeAsync(60);
  await signIn;
  expect(all[1]?.current()).toEqual({ state: "unknown" });
  await expect(all[1]?.token()).rejects.toMatchObject({ code: Code.Unauthenticated });
});

test("a renewal that brings another session begins again, too", async () => {
  const { hub, all } = await signedIn({ tabs: 1 });
  Object.assign(hub, { session: "s2", person: "grace" });
  await vi.advanceTimersByTimeAsync(life * 0.81);
  expect(all[0]?.current()).toEqual({ state: "unknown" });
});

test("words of other sessions and words that nobody understands change nothing", async () => {
  const { browser, all } = await signedIn({ tabs: 1 });
  const stranger = browser.tab();
  const endsAt = Date.now() + 1e9;
  for (const word of [
    undefined,
    null,
    "token",
    7,
    {},
    { kind: "token", session: "s2", token: "evil", endsAt },
    { kind: "token", session: "", token: "evil", endsAt },
    { kind: "token", session: "s1", token: 7, endsAt },
    { kind: "token", session: "s1", token: "old", endsAt: 1 },
    { kind: "out", session: "s2" },
    { kind: "other", session: "s1" },
  ])
    stranger.tell(word);
  await vi.advanceTimersByTimeAsync(10);
  expect(await all[0]?.token()).toBe("access-1");
  expect(all[0]?.current().state).toBe("in");
});

test("a question is answered for the session alone, and only with a token that is new", async () => {
  const { browser } = await signedIn({ tabs: 1 });
  const other = browser.tab();
  browser.said.length = 0;
  other.tell({ kind: "ask", session: "s2" });
  await vi.advanceTimersByTimeAsync(10);
  expect(browser.said).toHaveLength(1);
  other.tell({ kind: "ask", session: "s1" });
  await vi.advanceTimersByTimeAsync(10);
  expect(browser.said.at(-1)).toMatchObject({ kind: "token", session: "s1", token: "access-1" });
});

test("a browser without locks and channels has one tab", async () => {
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("BroadcastChannel", undefined);
  const tabs = browserTabs();
  expect(await tabs.alone(async (hasWaited) => hasWaited)).toBe(false);
  tabs.tell("a word");
});

test("a tab that keeps the lock does not stop the others, and a failure is the work's own", async () => {
  vi.useRealTimers();
  let isHeld = true;
  const request = async (_: string, options: LockOptions, work?: (lock: Lock | null) => unknown) => {
    if (options.ifAvailable) return work?.(isHeld ? null : ({} as Lock));
    over.abort(); // as the time passes, and nobody lets go
    throw options.signal?.reason;
  };
  const over = new AbortController();
  vi.spyOn(AbortSignal, "timeout").mockReturnValue(over.signal);
  vi.stubGlobal("navigator", { locks: { request } });
  vi.stubGlobal("BroadcastChannel", undefined);
  const tabs = browserTabs();
  expect(await tabs.alone(async (hasWaited) => hasWaited)).toBe(true);
  isHeld = false;
  await expect(tabs.alone(() => Promise.reject(new Error("the work's own")))).rejects.toThrow("the work's own");
  vi.restoreAllMocks();
});
