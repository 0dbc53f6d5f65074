// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { browserSurroundings } from "../src/hub/live.ts";
import { offline } from "./cluster.ts";
import type { Answers } from "./hub.ts";
import { open as openPage } from "./open.tsx";
import { type FakeReach, kinds, object, reachApi } from "./reach.ts";
import { expectAccessible } from "./render.tsx";

// One question to several clusters, each with an API of its own.

type Respond = (url: URL, signal: AbortSignal) => Response | Promise<Response> | undefined;

/** Opens the page with clusters of these APIs, and of what answers before them. */
function open(
  search: string,
  clusters: Record<string, Partial<FakeReach> | Respond>,
  { around, ...change }: Partial<Answers> = {},
) {
  const asked: string[] = [];
  const running = { now: 0, most: 0 };
  const apis = Object.fromEntries(
    Object.entries(clusters).map(([name, of]) => [name, reachApi(typeof of === "function" ? {} : of)]),
  );
  const request = async (address: string, init: RequestInit) => {
    const [, name = "", rest = ""] = /^\/clusters\/([^/]+)(.*)$/.exec(address) ?? [];
    asked.push(`${name} ${rest}`);
    running.now += 1;
    running.most = Math.max(running.most, running.now);
    try {
      const of = clusters[name];
      const signal = init.signal as AbortSignal;
      const own = typeof of === "function" ? of(new URL(rest, "http://cluster.invalid"), signal) : undefined;
      const accept = new Headers(init.headers).get("Accept") ?? "";
      return (await own) ?? apis[name]?.kube(rest, signal, accept, init) ?? offline();
    } finally {
      running.now -= 1;
    }
  };
  return { ...openPage(`/resources${search}`, { ...change, around: { ...around, request } }), asked, running };
}

/** Only a hang reaches this. */
const polling = { timeout: 60_000 };
const row = (name: RegExp) => page.getByRole("row", { name });
const line = (name: RegExp) => page.getByRole("region", { name: "What each cluster answered" }).getByText(name);
const three = "?kind=configmaps&clusters=berlin,paris,rome";
const hang: Respond = (_, signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(new DOMException("ended", "AbortError"))));

describe("a question to several clusters", () => {
  test("is answered by each on its own, in one table", async () => {
    const { router, asked, running } = open(three, {
      berlin: { objects: [object("cart"), object("web")] },
      paris: { objects: [object("cart")] },
      rome: () => offline(),
    });
    await expect.element(page.getByText(/^2 of 3 clusters answered, with 3 objects\./)).toBeVisible();
    await expect.element(row(/^berlin cart/)).toBeVisible();
    await expect.element(row(/^paris cart/)).toBeVisible();
    await expect.element(line(/the agent of cluster "berlin" is not connected/)).toBeVisible();
    await expect.element(line(/^2 objects$/)).toBeVisible();
    await expect
      .element(
        page
          .getByText('for c in leat-berlin leat-paris leat-rome; do kubectl --context "$c" get configmaps -A; done')
          .first(),
      )
      .toBeVisible();
    expect(asked.some((each) => each.includes("watch="))).toBe(false);
    expect(running.most).toBeLessThanOrEqual(4);
    await expectAccessible();
    await userEvent.type(page.getByRole("textbox", { name: "Find by name" }), "web{Enter}");
    await expect.element(row(/^paris cart/)).not.toBeInTheDocument();
    expect(router.state.location.search).toMatchObject({ name: "web" });
    await row(/^berlin web/)
      .getByRole("link")
      .click();
    await expect.element(page.getByRole("heading", { level: 1, name: "web" })).toBeVisible();
    expect(router.state.location.pathname).toBe("/clusters/berlin/resources/core/v1/configmaps/shop/web");
  });

  test("shows rows as they come, and a cluster that is silent holds up no other", async () => {
    const sleeps: (() => void)[] = [];
    const real = browserSurroundings();
    const surroundings = {
      ...real,
      sleep: (ms: number, signal: AbortSignal) =>
        ms === 20_000 ? new Promise<void>((resolve) => sleeps.push(resolve)) : real.sleep(ms, signal),
    };
    let signal: AbortSignal | undefined;
    open(
      three,
      {
        berlin: (url, given) => {
          signal = given;
          return hang(url, given);
        },
        paris: { objects: [object("cart")] },
        rome: { objects: [object("cart")] },
      },
      { around: { surroundings } },
    );
    await expect.element(row(/^rome cart/)).toBeVisible();
    await expect.element(page.getByText("2 of 3 clusters answered.")).toBeVisible();
    await expect.element(line(/^Asking$/)).toBeVisible();
    for (const end of sleeps) end();
    await expect.element(line(/^It has not answered within 20 seconds/)).toBeVisible();
    expect(signal?.aborted).toBe(true);
  });

  test("is not put to a cluster where the hub would refuse it, and the hub's words are shown", async () => {
    const { asked } = open(
      three,
      { berlin: {}, paris: {}, rome: {} },
      {
        fleet: {
          reviewAccess: ({ cluster, attributes }) =>
            cluster === "paris"
              ? { reason: `no binding of ada covers ${cluster} (${attributes?.verb} ${attributes?.resource})` }
              : { allowed: true },
        },
      },
    );
    await expect.element(line(/no binding of ada covers paris \(list configmaps\)/)).toBeVisible();
    await expect.element(page.getByText(/^2 of 3 clusters answered/)).toBeVisible();
    expect(asked.filter((each) => each.startsWith("paris"))).toEqual([]);
  });

  test("has the columns of the first answer, also where another version of the kind has others", async () => {
    const widget = (version: string, columns: { name: string; priority?: number }[], cells: unknown[]) => ({
      kinds: [
        ...kinds.filter(({ kind }) => kind !== "Widget"),
        { group: "example.com", version, resource: "widgets", kind: "Widget", columns, cells: () => cells },
      ],
      objects: [object("one", { apiVersion: `example.com/${version}`, kind: "Widget" })],
    });
    const { asked } = open("?kind=widgets.example.com&clusters=berlin,paris,rome", {
      berlin: widget("v1", [{ name: "Size" }, { name: "Wide", priority: 1 }], ["12", "x"]),
      paris: widget("v1beta1", [{ name: "Colour" }], ["blue"]),
      rome: { kinds: kinds.filter(({ kind }) => kind !== "Widget") },
    });
    await expect.element(page.getByText(/^2 of 3 clusters answered, with 2 objects/)).toBeVisible();
    await expect.element(line(/^Has no such kind$/)).toBeVisible();
    await expect.element(row(/^paris one/)).toBeVisible();
    expect(page.getByRole("columnheader", { name: "Wide" }).elements()).toHaveLength(0);
    expect(asked.some((each) => each === "rome /apis/example.com")).toBe(true);
  });

  test("is put to 25 clusters of a filter at most, and the page says so", async () => {
    const { answers, router } = open("?kind=configmaps&filter=region%3Deu", {});
    await expect
      .element(page.getByText(/^The filter selects 1,000 clusters\. The first 25 by name are asked\./))
      .toBeVisible();
    await expect.element(page.getByText(/^0 of 25 clusters answered, with 0 objects/)).toBeVisible();
    expect(answers.queries.find((query) => query.kind === "Cluster")?.size).toBe(25);
    await expectAccessible();
    await page.getByRole("combobox", { name: "Kind" }).fill("deploy");
    await page.getByRole("button", { name: "Show" }).click();
    await expect
      .poll(() => router.state.location.search, polling)
      .toEqual({ kind: "deployments.apps", filter: "region=eu" });
  });

  test("ends when nobody looks any more", async () => {
    const signals: AbortSignal[] = [];
    const keep: Respond = (url, signal) => {
      signals.push(signal);
      return hang(url, signal);
    };
    const { router } = open(three, { berlin: keep, paris: keep, rome: keep });
    await expect.poll(() => signals.length, polling).toBe(3);
    await router.navigate({ to: "/resources", search: { kind: "secrets", clusters: "berlin" } });
    await expect.poll(() => signals.slice(0, 3).every(({ aborted }) => aborted), polling).toBe(true);
    await expect.poll(() => signals.length, polling).toBe(4);
    await router.navigate({ to: "/clusters" });
    await expect.poll(() => signals[3]?.aborted, polling).toBe(true);
  });

  test("can be asked again", async () => {
    const objects = [object("cart")];
    open("?kind=configmaps&clusters=berlin", { berlin: { objects } });
    await expect.element(row(/^berlin cart/)).toBeVisible();
    objects.push(object("web"));
    await page.getByRole("button", { name: "Ask again" }).click();
    await expect.element(row(/^berlin web/)).toBeVisible();
  });

  test("shows what clusters write as text, and bounds it", async () => {
    const evil = `<img src=x onerror=alert(1)>\u202egnp.exe`;
    const many = Array.from({ length: 700 }, (_, index) => object(`${evil}-${index}`, {}, { namespace: evil }));
    open("?kind=configmaps&clusters=berlin,paris", { berlin: { objects: many }, paris: { objects: many } });
    await expect.element(page.getByText(/with 1,000 objects/)).toBeVisible();
    await expect.element(line(/^the first 500 of 700 objects$/).first()).toBeVisible();
    await expect.element(page.getByText("U+202E").first()).toBeVisible();
    expect(document.querySelector("#app img, #app a:not([href^='/ui/'])")).toBeNull();
    expect(page.getByRole("row").elements().length).toBeLessThan(100);
    await expectAccessible();
  });
});

test("the page is reached from the clusters that are selected, from a kind, and says what it needs", async () => {
  const { router } = openPage("/clusters", {});
  const here = page.getByRole("link", { name: "Query in these clusters" });
  await expect.element(here).toHaveAttribute("href", "/ui/resources");
  await page
    .getByRole("checkbox", { name: /^Select [^a]/ })
    .first()
    .click();
  await page.getByRole("button", { name: "Query in these clusters" }).click();
  await expect.element(page.getByText("Which kind, and in which clusters?")).toBeVisible();
  expect(router.state.location.search).toHaveProperty("clusters");
  await expectAccessible();
});
