// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { Page } from "playwright";
import { expect, test } from "vitest";
import { DiffAction, DiffResponseSchema, GetInventoryResponseSchema } from "../src/gen/leat/agent/v1/agent_pb";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { GetResponseSchema } from "../src/gen/leat/fleet/v1/document_pb";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { startBuilt } from "./built.ts";
import { clusterApi, event, type FakePod } from "./cluster.ts";
import { serviceDocument } from "./hub.ts";

// The built UI under its policy, with a cluster that writes what it should not into everything that a page shows.

const evil =
  '<img src=x onerror="document.title=\'broken\'"><script>document.title="broken"</script>' +
  "javascript:alert(1) \u202egnp.exe\u200b \u001b[31m\u001b]8;;javascript:alert(1)\u0007click\u001b]8;;\u0007 \u0000";
const long = evil.repeat(8000);
const ref = (name: string) => ({ group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name });
const pods: FakePod[] = [
  {
    name: "cart-7d4b9-aaaaa",
    owner: "cart-7d4b9",
    status: evil,
    ready: evil,
    restarts: `3 ${evil}`,
    containers: ["web"],
  },
];
const { kube } = clusterApi({
  pods,
  deployments: ["cart"],
  events: Array.from({ length: 2000 }, (_, index) => event("cart-7d4b9-aaaaa", `${evil}${index}`, evil)),
  logs: Object.fromEntries(
    ["web", "web previous"].map((name) => [
      `cart-7d4b9-aaaaa ${name}`,
      `2026-11-28T11:17:42Z ${long}\n${`2026-11-28T11:17:43Z ${evil}\n`.repeat(5000)}`,
    ]),
  ),
});

const problem = { reason: Reason.APPLY_REJECTED, message: long };
const service = () => {
  const document = serviceDocument();
  if (document.object.case === "service" && document.object.value.status) {
    Object.assign(document.object.value.status.problem ?? {}, { message: long });
  }
  return { document };
};
const inventory = {
  objects: [
    { ref: ref("cart"), health: Health.DEGRADED, problem },
    ...Array.from({ length: 10_000 }, (_, index) => ({
      ref: ref(`${evil}${index}`),
      health: Health.MISSING,
      problem: { ...problem, message: evil },
    })),
  ],
};
const differences = {
  objects: [
    { ref: ref("cart"), action: DiffAction.UPDATE, unified: `@@ -1 +1 @@\n${`+${evil}\n`.repeat(5000)}`, problem },
  ],
};

async function answer(page: Page) {
  const call = <Desc extends DescMessage>(name: string, schema: Desc, message: MessageInitShape<Desc>) =>
    page.route(`**/${name}`, (route) =>
      route.fulfill({ contentType: "application/proto", body: Buffer.from(toBinary(schema, create(schema, message))) }),
    );
  await page.route("**/clusters/**", async (route) => {
    const { pathname, search } = new URL(route.request().url());
    const path = pathname.replace(/^\/clusters\/[^/]+/, "") + search;
    const response = await kube(path, new AbortController().signal, route.request().headers().accept ?? "");
    await route.fulfill({ status: response.status, body: Buffer.from(await response.arrayBuffer()) });
  });
  await page.route("**/WatchEvents", (route) => route.fulfill({ status: 503 }));
  await call("leat.fleet.v1.FleetService/Get", GetResponseSchema, service());
  await call("leat.agent.v1.AgentService/GetInventory", GetInventoryResponseSchema, inventory);
  await call("leat.agent.v1.AgentService/Diff", DiffResponseSchema, differences);
}

test("nothing that a cluster writes runs, leads away, or breaks the page", async () => {
  const { base, newPage, close } = await startBuilt();
  try {
    const page = await newPage({ viewport: { width: 390, height: 844 } });
    const broken: string[] = [];
    await page.exposeFunction("leatReport", (text: string) => broken.push(text));
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => {
        const report = (globalThis as unknown as { leatReport: (text: string) => void }).leatReport;
        report(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`);
      });
    });
    page.on("pageerror", (error) => broken.push(String(error)));
    page.on("dialog", () => broken.push("a dialog opened"));
    await answer(page);
    for (const [path, selector] of [
      ["?why=true", "text=The last lines of its log >> nth=0"],
      ["?why=true", "text=U+202E >> nth=0"],
      ["?tab=objects", "role=treegrid"],
      ["?tab=logs", "text=U+200B >> nth=0"],
      ["?tab=events", "role=grid"],
      ["?tab=diff&object=apps%2FDeployment%2Fshop%2Fcart", "text=U+202E >> nth=0"],
    ] as const) {
      await page.goto(`${base}/services/cart@berlin${path}`);
      await page.locator(selector).waitFor();
      const { width, title, elements, foreign } = await page.evaluate(() => ({
        width: document.documentElement.scrollWidth,
        title: document.title,
        elements: document.querySelectorAll("#app *").length,
        foreign: document.querySelectorAll("#app img, #app script, #app a:not([href^='/ui/'])").length,
      }));
      expect(width, path).toBeLessThanOrEqual(390);
      expect(title, path).toBe("cart@berlin · Leat");
      expect(foreign, path).toBe(0);
      // What is not in sight is not in the page.
      expect(elements, path).toBeLessThan(20_000);
    }
    expect(broken).toEqual([]);
  } finally {
    await close();
  }
});
