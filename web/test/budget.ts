// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createConnectRouter } from "@connectrpc/connect";
import { createFetchHandler } from "@connectrpc/connect/protocol";
import type { CDPSession, Page } from "playwright";
import { GetInventoryResponseSchema } from "../src/gen/leat/agent/v1/agent_pb";
import { GetResponseSchema } from "../src/gen/leat/fleet/v1/document_pb";
import { FleetService } from "../src/gen/leat/fleet/v1/fleet_pb";
import { ReviewAccessResponseSchema } from "../src/gen/leat/fleet/v1/people_pb";
import { type FleetQuery, FleetRowSchema, QueryService } from "../src/gen/leat/fleet/v1/query_pb";
import { SessionService } from "../src/gen/leat/fleet/v1/session_pb";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import type { Built } from "./built.ts";
import { serviceDocument } from "./hub.ts";

// What people do with large fleets in the built UI, and what measures the work of it. Tests count calls of functions,
// which are as many on every machine; the benchmarks in bench/ take the same acts, and the time of the processor.

/** Begins to measure a page, and returns what tells how much there was since it was asked last. */
export type Meter = (devtools: CDPSession) => Promise<() => Promise<number>>;

/** Counts the calls of functions of the page's scripts. */
export const calls: Meter = async (devtools) => {
  await devtools.send("Profiler.enable");
  await devtools.send("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  return async () => {
    const { result } = await devtools.send("Profiler.takePreciseCoverage");
    // Scripts without an address are those that drive the page.
    const functions = result.filter(({ url }) => url !== "").flatMap(({ functions }) => functions);
    return functions.reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0);
  };
};

/** Measures milliseconds of the main thread's processor, so waiting for it does not count. */
export const milliseconds: Meter = async (devtools) => {
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  let last = 0;
  return async () => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    const now = 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN);
    const since = now - last;
    last = now;
    return since;
  };
};

export const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;

/** Has the page draw two frames: what was asked for before is painted then. */
const painted = (page: Page) =>
  page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));

/** A hub with many services, whose streams the test feeds. */
export class Hub {
  streams = new Set<{ query: FleetQuery; push: (changes: number) => void }>();
  changes = 0;
  opened = 0;
  total = 0;
  /** How far the page's clock is ahead of this one. */
  ahead = 0;
  readonly #row = (index: number, healthy = 12) =>
    create(FleetRowSchema, {
      ref: `web-${index}@berlin`,
      name: `web-${index}`,
      cluster: "berlin",
      phase: index % 100 === 3 ? "FAILED" : "HEALTHY",
      message: index % 100 === 3 ? "quota of namespace shop is used up" : "",
      healthy,
      total: 12,
      synced: true,
    });
  /** Changes rows of every open window. */
  push(changes: number) {
    for (const stream of this.streams) stream.push(changes);
  }
  #windowOf(query: FleetQuery) {
    const rows = Array.from({ length: query.size || 100 }, (_, at) => this.#row(query.offset + at));
    return { rows, total: this.total, groups: [{ field: "phase", groups: [{ value: "HEALTHY", count: this.total }] }] };
  }
  async *#watch(query: FleetQuery, signal: AbortSignal) {
    let wake = () => {};
    let due = 0;
    const stream = {
      query,
      push: (changes: number) => {
        due += changes;
        wake();
      },
    };
    this.streams.add(stream);
    this.opened += 1;
    signal.addEventListener("abort", () => {
      this.streams.delete(stream);
      wake();
    });
    const { rows, groups } = this.#windowOf(query);
    yield { rows, window: rows.map((row) => row.ref), hasWindow: true, total: this.total, groups, hasCounts: true };
    while (!signal.aborted) {
      if (due === 0) await new Promise<void>((resolve) => (wake = resolve));
      const now = Math.min(due, query.size || 100);
      due -= now;
      this.changes += now;
      if (now > 0) yield { rows: Array.from({ length: now }, (_, at) => this.#row(query.offset + at, this.changes)) };
    }
  }
  readonly answer = (() => {
    const router = createConnectRouter();
    router.service(QueryService, {
      queryFleet: ({ query }) => this.#windowOf(query as FleetQuery),
      watchQuery: ({ query }, { signal }) => this.#watch(query as FleetQuery, signal),
      getFleetStatus: () => ({
        services: [{ value: "HEALTHY", count: this.total }],
        clusters: [{ value: "CONNECTED", count: 1 }],
      }),
    });
    router.service(FleetService, {});
    router.service(SessionService, {
      createAccessToken: () => ({
        accessToken: "a.b.c",
        expireTime: timestampFromMs(Date.now() + this.ahead + 300_000),
        session: { id: "s1", person: "ada" },
      }),
    });
    const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, createFetchHandler(handler)]));
    return async (request: Request) =>
      (await handlers.get(new URL(request.url).pathname)?.(request)) ?? new Response(null, { status: 404 });
  })();
}

/** Opens a page of the hub, and waits until it shows the text. */
export async function open(built: Built, path: string, text: string, total: number) {
  const hub = new Hub();
  hub.total = total;
  built.answer = hub.answer;
  const page = await built.newPage({ viewport: { width: 1280, height: 900 } });
  const devtools = await page.context().newCDPSession(page);
  await page.goto(built.base + path);
  await page.getByText(text).first().waitFor();
  return { page, hub, devtools };
}

/**
 * Scrolls by two rows a frame, under 200 changes in 60 frames. Returns what a frame costs, of each 60, and how many
 * elements were in the page.
 */
export async function scrolled(built: Built, total: number, meter: Meter) {
  const { page, hub, devtools } = await open(built, "/services", "web-0", total);
  const taken = await meter(devtools);
  const scroll = (frames: number) =>
    page.evaluate(
      (frames) =>
        new Promise<number>((resolve) => {
          const scroller = document.querySelector("[role=grid]")?.parentElement as HTMLElement;
          let left = frames;
          const step = () => {
            scroller.scrollTop += 72; // two rows
            left -= 1;
            if (left > 0) requestAnimationFrame(step);
            else resolve(document.querySelectorAll("*").length);
          };
          requestAnimationFrame(step);
        }),
      frames,
    );
  try {
    const elements = [await scroll(60)];
    const costs: number[] = [];
    for (let batch = 0; batch < 7; batch += 1) {
      await taken();
      for (let part = 0; part < 20; part += 1) {
        hub.push(10);
        elements.push(await scroll(3));
      }
      costs.push((await taken()) / 60);
    }
    return { costs, elements, changes: hub.changes };
  } finally {
    await page.close();
  }
}

/**
 * Uses a list by the keyboard, under ten changes a key: row by row, by pages, to its ends. Returns what a key costs with
 * its two frames, of each turn.
 */
export async function pressed(built: Built, total: number, meter: Meter) {
  const { page, hub, devtools } = await open(built, "/services", "web-0", total);
  const taken = await meter(devtools);
  const keys = ["ArrowDown", "ArrowDown", "PageDown", "ArrowDown", "End", "ArrowUp", "PageUp", "Home"];
  try {
    await page.locator('[data-index="0"]').focus();
    const costs: number[] = [];
    for (let turn = 0; turn < 12; turn += 1) {
      await taken();
      for (const key of keys) {
        hub.push(10);
        await page.keyboard.press(key);
        await painted(page);
      }
      costs.push((await taken()) / keys.length);
    }
    return { costs, changes: hub.changes };
  } finally {
    await page.close();
  }
}

async function answerTree(page: Page, pods: number) {
  const call = <Desc extends DescMessage>(name: string, schema: Desc, message: MessageInitShape<Desc>) => {
    const body = Buffer.from(toBinary(schema, create(schema, message)));
    return page.route(`**/${name}`, (route) => route.fulfill({ contentType: "application/proto", body }));
  };
  await call("leat.fleet.v1.FleetService/Get", GetResponseSchema, { document: serviceDocument() });
  await call("leat.fleet.v1.FleetService/ReviewAccess", ReviewAccessResponseSchema, { allowed: true });
  await call("leat.agent.v1.AgentService/GetInventory", GetInventoryResponseSchema, {
    objects: Array.from({ length: pods }, (_, index) => ({
      ref: { version: "v1", kind: "Pod", namespace: "shop", name: `web-${String(index).padStart(5, "0")}` },
      health: Health.HEALTHY,
    })),
  });
  await page.route("**/clusters/**/apis/**", (route) =>
    route.fulfill({ contentType: "application/json", body: JSON.stringify({ status: { allowed: true } }) }),
  );
}

/** Unfolds and draws a service's tree of pods, five times each. Returns what each cost, and how many elements it put in the page. */
export async function unfolded(built: Built, pods: number, meter: Meter) {
  const page = await built.newPage({ viewport: { width: 1280, height: 900 } });
  try {
    await answerTree(page, pods);
    const taken = await meter(await page.context().newCDPSession(page));
    const elements: number[] = [];
    const costOf = async (act: () => Promise<void>, shows: string) => {
      await taken();
      await act();
      await page.locator(shows).first().waitFor();
      await painted(page);
      const cost = await taken();
      elements.push(await page.evaluate(() => document.querySelectorAll("*").length));
      return cost;
    };
    const group = "role=row[name=/^Pod × /]";
    const first = "role=row[name=/^Pod web-00000/]";
    const views = page.getByRole("navigation", { name: "Views of the objects" });

    await page.goto(`${built.base}/services/cart@berlin`);
    await page.getByRole("tab", { name: "Objects" }).waitFor();
    const read = await costOf(() => page.getByRole("tab", { name: "Objects" }).click(), group);
    const outline: number[] = [];
    const graph: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      if (turn > 0) await page.locator(group).click();
      if (turn > 0) await page.locator(first).waitFor({ state: "detached" });
      outline.push(await costOf(() => page.locator(group).click(), first));
    }
    for (let turn = 0; turn < 5; turn += 1) {
      const drawn = "role=treeitem[name=/Pod · Healthy/]";
      graph.push(await costOf(() => views.getByRole("link", { name: "Graph" }).click(), drawn));
      await views.getByRole("link", { name: "Outline" }).click();
      await page.locator(first).waitFor();
    }
    return { read, outline, graph, elements };
  } finally {
    await page.close();
  }
}
