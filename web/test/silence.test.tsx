// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { page } from "vitest/browser";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { browserSurroundings, type Surroundings } from "../src/hub/live.ts";
import { clusterApi } from "./cluster.ts";
import { refusal } from "./hub.ts";
import { open } from "./open.tsx";

// An agent that falls silent, and one whose connection breaks, under an open page. Time is the test's.

/** A clock that stands still until the test moves it. */
class Clock {
  #now = Date.now();
  readonly #sleepers = new Set<{ until: number; wake: () => void }>();
  readonly sleep: Surroundings["sleep"] = (ms, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const sleeper = { until: this.#now + ms, wake: resolve };
      this.#sleepers.add(sleeper);
      signal.addEventListener("abort", () => {
        this.#sleepers.delete(sleeper);
        resolve();
      });
    });
  readonly around = { surroundings: { ...browserSurroundings(), sleep: this.sleep, now: () => this.#now } };
  pass(ms: number) {
    this.#now += ms;
    for (const sleeper of this.#sleepers) {
      if (sleeper.until > this.#now) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
  }
}

const objects = [
  {
    ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "cart" },
    health: Health.HEALTHY,
  },
];
const text = (words: string) => page.getByText(words);
const silent = text("The cluster's agent has not answered for some seconds");

/** Returns a promise, and how to settle it. */
function promised<T = void>() {
  let settle: (value: T) => void = () => {};
  let fail: (error: unknown) => void = () => {};
  const promise = new Promise<T>((resolve, reject) => {
    settle = resolve;
    fail = reject;
  });
  return { promise, settle, fail };
}

test("an agent that has not answered for five seconds is said, with the age of what is shown", async () => {
  const clock = new Clock();
  const answer = promised();
  const second = promised();
  let isSilent = false;
  open("/services/cart@berlin?tab=objects", {
    around: clock.around,
    kube: clusterApi({ pods: [], deployments: ["cart"] }).kube,
    agent: {
      async getInventory() {
        if (isSilent) {
          second.settle();
          await answer.promise;
        }
        return { objects };
      },
      async *watchEvents() {
        await new Promise(() => {});
        yield {};
      },
    },
  });
  await expect.element(text("1 object, all well")).toBeVisible();
  isSilent = true;
  clock.pass(10_000);
  await second.promise;
  clock.pass(4999);
  await expect.element(text("1 object, all well")).toBeVisible();
  expect(silent.elements()).toEqual([]);
  clock.pass(1);
  await expect.element(silent).toBeVisible();
  await expect.element(page.getByText("What is shown was read", { exact: false })).toBeVisible();
  expect(document.querySelector("[role=status] time")?.textContent).toBeTruthy();
  answer.settle();
  await expect.element(silent).not.toBeInTheDocument();
});

test("a connection that breaks is noticed at once, before the next read is due", async () => {
  const clock = new Clock();
  const line = promised();
  let isGone = false;
  open("/services/cart@berlin?tab=objects", {
    around: clock.around,
    kube: clusterApi({ pods: [], deployments: ["cart"] }).kube,
    agent: {
      getInventory() {
        if (isGone) throw refusal(Code.Unavailable, "AGENT_OFFLINE", "berlin has no connection");
        return { objects };
      },
      async *watchEvents() {
        await line.promise;
        yield {};
      },
    },
  });
  await expect.element(text("1 object, all well")).toBeVisible();
  isGone = true;
  line.fail(refusal(Code.Unavailable, "AGENT_OFFLINE", "berlin has no connection"));
  await expect.element(text("berlin has no connection")).toBeVisible();
  await expect.element(page.getByText("What is shown was read", { exact: false })).toBeVisible();
  await expect.element(text("1 object, all well")).toBeVisible();
});
