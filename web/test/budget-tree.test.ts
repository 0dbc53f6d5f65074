// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { Page } from "playwright";
import { expect, test } from "vitest";
import { GetInventoryResponseSchema } from "../src/gen/leat/agent/v1/agent_pb";
import { GetResponseSchema } from "../src/gen/leat/fleet/v1/document_pb";
import { ReviewAccessResponseSchema } from "../src/gen/leat/fleet/v1/people_pb";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { startBuilt } from "./built.ts";
import { serviceDocument } from "./hub.ts";

// What the tree of a service with many pods costs in the built UI, as an outline and as a graph. Times are of the main
// thread's processor, so waiting for it does not count; figures that were measured are in bench/RESULTS.md.

const pods = 10_000;
const turns = 5;
/** The goals of docs/design, in milliseconds. */
const bars = { outline: 200, graph: 500 };

const inventory = {
  objects: Array.from({ length: pods }, (_, index) => ({
    ref: { group: "", version: "v1", kind: "Pod", namespace: "shop", name: `web-${String(index).padStart(5, "0")}` },
    health: Health.HEALTHY,
  })),
};

async function answer(page: Page) {
  const call = <Desc extends DescMessage>(name: string, schema: Desc, message: MessageInitShape<Desc>) =>
    page.route(`**/${name}`, (route) =>
      route.fulfill({ contentType: "application/proto", body: Buffer.from(toBinary(schema, create(schema, message))) }),
    );
  await call("leat.fleet.v1.FleetService/Get", GetResponseSchema, { document: serviceDocument() });
  await call("leat.fleet.v1.FleetService/ReviewAccess", ReviewAccessResponseSchema, { allowed: true });
  await call("leat.agent.v1.AgentService/GetInventory", GetInventoryResponseSchema, inventory);
  await page.route("**/clusters/**/apis/**", (route) =>
    route.fulfill({ contentType: "application/json", body: JSON.stringify({ status: { allowed: true } }) }),
  );
}

const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;

test(`a tree of ${pods} pods is unfolded and drawn within its bars`, async () => {
  const { base, newPage, close } = await startBuilt(".tree");
  try {
    const page = await newPage({ viewport: { width: 1280, height: 900 } });
    await answer(page);
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const milliseconds = async () => {
      const { metrics } = await devtools.send("Performance.getMetrics");
      return 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN);
    };
    /** Returns what an act costs until what it shows is painted. */
    const costOf = async (act: () => Promise<void>, shows: string) => {
      const before = await milliseconds();
      await act();
      await page.locator(shows).first().waitFor();
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      return (await milliseconds()) - before;
    };
    const group = "role=row[name=/^Pod × 10,000/]";
    const first = "role=row[name=/^Pod web-00000/]";
    const views = page.getByRole("navigation", { name: "Views of the objects" });

    await page.goto(`${base}/services/cart@berlin`);
    await page.getByRole("tab", { name: "Objects" }).waitFor();
    const read = await costOf(() => page.getByRole("tab", { name: "Objects" }).click(), group);

    const outline: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      outline.push(await costOf(() => page.locator(group).click(), first));
      if (turn < turns - 1) await page.locator(group).click();
      if (turn < turns - 1) await page.locator(first).waitFor({ state: "detached" });
    }
    const graph: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      graph.push(
        await costOf(() => views.getByRole("link", { name: "Graph" }).click(), "role=treeitem[name=/Pod · Healthy/]"),
      );
      await views.getByRole("link", { name: "Outline" }).click();
      await page.locator(first).waitFor();
    }
    const shown = (costs: number[]) =>
      `median ${median(costs).toFixed(0)} ms, at most ${Math.max(...costs).toFixed(0)}`;
    process.stdout.write(`tree of ${pods} pods: read ${read.toFixed(0)} ms; outline ${shown(outline)}\n`);
    process.stdout.write(`tree of ${pods} pods: graph ${shown(graph)}\n`);
    expect(median(outline)).toBeLessThan(bars.outline);
    expect(median(graph)).toBeLessThan(bars.graph);
  } finally {
    await close();
  }
});
