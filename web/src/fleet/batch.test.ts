// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { Batch, width } from "./batch.ts";

/** Returns surroundings in which no time passes, and what was waited for. */
function still() {
  const waits: number[] = [];
  return {
    waits,
    env: {
      random: () => 0,
      sleep: async (ms: number) => {
        if (ms !== 50) waits.push(ms);
      },
    },
  };
}

const items = (n: number) => Array.from({ length: n }, (_, index) => index);

describe("a batch", () => {
  test("ten thousand are done, and few at once", async () => {
    let [running, most] = [0, 0];
    const batch = new Batch(
      items(10_000),
      async () => {
        running += 1;
        most = Math.max(most, running);
        await Promise.resolve();
        running -= 1;
      },
      still().env,
    );
    expect(await batch.run()).toMatchObject({ state: "ended", total: 10_000, done: 10_000, failed: [], left: 0 });
    expect(most).toBeLessThanOrEqual(width);
    expect(batch.untried()).toEqual([]);
  });

  test("what fails is kept with its reason, and the others go on", async () => {
    const act = async (item: number) => {
      if (item % 10 === 3) throw new ConnectError(`no ${item}`, Code.PermissionDenied);
    };
    const { done, failed, left } = await new Batch(items(100), act, still().env).run();
    expect([done, failed.length, left]).toEqual([90, 10, 0]);
    expect(failed[0]).toMatchObject({ item: 3, failure: { kind: "refused", message: "no 3" } });
  });

  test("when the hub asks to wait, all wait, and nothing is lost", async () => {
    const { env, waits } = still();
    const tried = new Map<number, number>();
    const act = async (item: number) => {
      tried.set(item, (tried.get(item) ?? 0) + 1);
      if (item === 5 && tried.get(item) === 1) throw new ConnectError("slow down", Code.ResourceExhausted);
    };
    const batch = new Batch(items(20), act, env);
    const told: boolean[] = [];
    batch.subscribe(() => told.push(batch.current().waits));
    expect(await batch.run()).toMatchObject({ done: 20, failed: [] });
    expect(tried.get(5)).toBe(2);
    expect(waits).toEqual([500]);
    expect(told).toContain(true);
    expect(batch.current().waits).toBe(false);
  });

  test("a hub that never stops to refuse ends each item with its reason", async () => {
    const act = async () => {
      throw new ConnectError("slow down", Code.ResourceExhausted);
    };
    const { failed } = await new Batch(items(3), act, still().env).run();
    expect(failed.map(({ failure }) => failure.kind)).toEqual(["busy", "busy", "busy"]);
  });

  test("a hub that does not answer is asked a few times", async () => {
    let calls = 0;
    const act = async () => {
      calls += 1;
      throw new ConnectError("", Code.Unavailable);
    };
    const { failed } = await new Batch(items(1), act, still().env).run();
    expect(failed).toHaveLength(1);
    expect(calls).toBe(4);
  });

  test("a stop lets what runs come to its end, and names the rest", async () => {
    const held = Promise.withResolvers<void>();
    const begun: number[] = [];
    const act = async (item: number) => {
      begun.push(item);
      if (begun.length === 3) batch.stop();
      await held.promise;
    };
    const batch: Batch<number> = new Batch(items(100), act, still().env);
    const run = batch.run();
    while (begun.length < 3) await Promise.resolve();
    expect(batch.current().state).toBe("stopping");
    held.resolve();
    expect(await run).toMatchObject({ state: "stopped", done: 3, failed: [], left: 97 });
    expect([...batch.untried()].sort((a, b) => a - b)).toEqual(items(100).slice(3));
  });
});
