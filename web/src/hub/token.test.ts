// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SessionService } from "../gen/leat/fleet/v1/session_pb";
import { createTokens } from "./token.ts";

const life = 300_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function start() {
  const state = {
    exchanges: 0,
    fail: undefined as unknown,
    loseAnswer: false,
    proofs: [] as string[],
    audiences: [] as string[],
    endSession: async () => ({}),
  };
  const answer = () => {
    state.exchanges += 1;
    if (state.fail) throw state.fail;
    return { accessToken: `access-${state.exchanges}`, expireTime: timestampFromMs(Date.now() + life) };
  };
  const transport = createRouterTransport(({ service }) => {
    service(SessionService, {
      createAccessToken({ audience }) {
        state.audiences.push(audience);
        if (state.loseAnswer) throw new ConnectError("", Code.Unavailable);
        return { ...answer(), session: { person: "ada" } };
      },
      signIn(request) {
        state.proofs.push(request.proof.value ?? "");
        return {};
      },
      signOut: () => state.endSession(),
    });
  });
  const tokens = createTokens({
    sessions: createClient(SessionService, transport),
  });
  return { tokens, state };
}

test("a token is renewed at four fifths of its life, before a call needs it", async () => {
  const { tokens, state } = start();
  await tokens.resume();
  const renewed = vi.fn();
  tokens.onRenewal(renewed);
  await vi.advanceTimersByTimeAsync(life * 0.79);
  expect(state.exchanges).toBe(1);
  await vi.advanceTimersByTimeAsync(life * 0.02);
  expect(state.exchanges).toBe(2);
  expect(renewed).toHaveBeenCalledTimes(1);
  expect(await tokens.token()).toBe("access-2");
});

test("the tunnel's token is another one, exchanged when a request needs it", async () => {
  const { tokens, state } = start();
  await tokens.resume();
  const renewed = vi.fn();
  tokens.onRenewal(renewed);
  const [first, second] = await Promise.all([tokens.token("tunnel"), tokens.token("tunnel")]);
  expect(first).toBe("access-2");
  expect(second).toBe(first);
  expect(await tokens.token()).toBe("access-1");
  expect(state.audiences).toEqual(["", "tunnel"]);
  // Nothing that runs depends on it, so nothing opens again.
  expect(renewed).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(life);
  await tokens.token("tunnel");
  expect(state.audiences.filter((audience) => audience === "tunnel")).toHaveLength(2);
  await tokens.signOut();
  await expect(tokens.token("tunnel")).rejects.toThrow("nobody is signed in");
});

test("callers share one exchange", async () => {
  const { tokens, state } = start();
  await tokens.resume();
  state.fail = new ConnectError("", Code.Unavailable);
  await vi.advanceTimersByTimeAsync(life + 1000);
  state.fail = undefined;
  const before = state.exchanges;
  const got = await Promise.all([tokens.token(), tokens.token(), tokens.token()]);
  expect(state.exchanges).toBe(before + 1);
  expect(new Set(got).size).toBe(1);
});

test("a hub that is away ends no session, and one that has ended it does", async () => {
  const { tokens, state } = start();
  await tokens.resume();
  state.fail = new ConnectError("", Code.Unavailable);
  await vi.advanceTimersByTimeAsync(life + 1000);
  await expect(tokens.token()).rejects.toThrow();
  expect(tokens.current().state).toBe("in");
  state.fail = new ConnectError("ended", Code.Unauthenticated);
  await expect(tokens.token()).rejects.toThrow();
  expect(tokens.current()).toEqual({ state: "out", wasIn: true });
});

test("after signing out there is no token", async () => {
  const { tokens } = start();
  await tokens.resume();
  await tokens.signOut();
  await expect(tokens.token()).rejects.toMatchObject({ code: Code.Unauthenticated });
  expect(tokens.current()).toEqual({ state: "out", wasIn: false });
});

test("a sign-out that the hub does not confirm stays pending, and can be tried again", async () => {
  const { tokens, state } = start();
  await tokens.resume();
  state.endSession = () => Promise.reject(new ConnectError("", Code.Unavailable));
  await expect(tokens.signOut()).rejects.toMatchObject({ code: Code.Unavailable });
  expect(tokens.current()).toEqual({ state: "out", wasIn: false, isPending: true });
  await expect(tokens.token()).rejects.toMatchObject({ code: Code.Unauthenticated });

  const ended = vi.fn(async () => ({}));
  state.endSession = ended;
  await tokens.signOut();
  expect(tokens.current()).toEqual({ state: "out", wasIn: false });
  await tokens.signOut();
  expect(ended).toHaveBeenCalledTimes(1);

  // A session that had ended before leaves nothing to do.
  await tokens.resume();
  state.endSession = () => Promise.reject(new ConnectError("ended", Code.Unauthenticated));
  await tokens.signOut();
  expect(tokens.current()).toEqual({ state: "out", wasIn: false });
});

test("a new session begins after the end of the one before, which takes the cookie of the browser", async () => {
  const { tokens, state } = start();
  await tokens.resume();
  const { promise, reject } = Promise.withResolvers<Record<string, never>>();
  state.endSession = () => promise;
  const left = tokens.signOut();
  const signedIn = tokens.signIn({ case: "apiToken", value: "leatpat_secret" });
  await vi.advanceTimersByTimeAsync(1000);
  expect(state.proofs).toEqual([]);
  reject(new ConnectError("", Code.Unavailable));
  await expect(left).rejects.toMatchObject({ code: Code.Unavailable });
  await signedIn;
  expect(state.proofs).toEqual(["leatpat_secret"]);
  expect(tokens.current().state).toBe("in");
});

test("a browser that keeps no cookie is told why it is not signed in", async () => {
  const { tokens, state } = start();
  state.fail = new ConnectError("session_token is required", Code.InvalidArgument);
  await expect(tokens.signIn({ case: "apiToken", value: "leatpat_secret" })).rejects.toThrow("kept no session");
  expect(tokens.current().state).not.toBe("in");
});

test("a code gives the browser a session, which is exchanged like any other", async () => {
  const { tokens, state } = start();
  await tokens.signIn({ case: "code", value: "one-time" });
  expect(state.proofs).toEqual(["one-time"]);
  expect(tokens.current()).toMatchObject({ state: "in", person: { name: "ada" } });
  await vi.advanceTimersByTimeAsync(life * 0.81);
  expect(await tokens.token()).toBe("access-2");
  state.loseAnswer = true;
  await vi.advanceTimersByTimeAsync(life);
  await expect(tokens.token()).rejects.toThrow();
  state.loseAnswer = false;
  expect(await tokens.token()).toBe("access-3");
});

test("nothing of the module holds a token where another could read it", async () => {
  const { tokens } = start();
  await tokens.signIn({ case: "apiToken", value: "leatpat_secret" });
  expect(JSON.stringify({ ...tokens, current: tokens.current() })).not.toMatch(/leatpat|access-/);
});
