// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Locator, Page } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, newcomer, typeToken } from "./browser.ts";
import { Up } from "./hub.ts";
import { type Part, Parts } from "./parts.ts";

// Pages stay open while parts of a hub are killed, one after the other. Each page says what is gone, and goes on when it
// is back, without a reload. Seconds are printed and not held to a bar: a machine that is busy is slow, not broken.

const manifests = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example.com/web:1"}]}
`;

const folder = mkdtempSync(join(tmpdir(), "leat-parts-"));
const up = new Up(join(folder, "up"));
let parts: Parts;
let browser: Browser;

beforeAll(async () => {
  await up.start();
  for (const name of ["parts", "work"]) mkdirSync(join(folder, name));
  parts = new Parts(join(folder, "parts"), { name: "edge", kubeconfig: up.kubeconfig });
  await parts.start();
  up.push(join(folder, "work"), "shop/shop.yaml", () => manifests);
  await parts.apply(`
apiVersion: leat.dev/v1
kind: Repository
metadata: {name: demo}
spec: {url: ${up.repository}, pollInterval: 10s}
---
apiVersion: leat.dev/v1
kind: Repository
metadata: {name: vault}
spec: {url: ${up.repository}, pollInterval: 1h}
---
apiVersion: leat.dev/v1
kind: Cluster
metadata: {name: far}
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: shop}
spec: {cluster: edge, namespace: shop, sources: [{repository: demo, ref: {branch: main}, path: shop}]}
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: till}
spec: {cluster: far, namespace: till, sources: [{repository: vault, ref: {branch: main}, path: shop}]}
---
apiVersion: leat.dev/v1
kind: User
metadata: {name: ada}
---
apiVersion: leat.dev/v1
kind: AccessBinding
metadata: {name: ada-sees-the-shop}
spec: {users: [ada], clusters: {names: [edge]}, role: viewer, rules: [{namespaces: [shop]}]}
`);
  await parts.leat("wait", "service/shop", "--for=healthy");
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await parts?.stop();
  await up.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens a page in a browser of its own, signed in with an API token. A browser has six connections without TLS. */
async function open(path: string, token = parts.admin): Promise<Page> {
  const page = await (await newcomer(browser)).newPage();
  await page.goto(`${parts.origin}/ui${path}`);
  await typeToken(page, token);
  return page;
}

const seconds: string[] = [];

// The ages of what a page still shows: beside the failure, in the header, and when the hub last heard from the cluster.
const readAge = (page: Page) => page.getByText("What is shown was read").locator("time");
const headerAge = (page: Page) => page.locator("header").getByText(/^as of /);
const seenAge = (page: Page) => page.locator("main time");

/** Kills a part while pages are open, waits until each says so, and then until each is well again. */
async function without(
  part: Part,
  pages: readonly [name: string, page: Page, says: string, well: string, age: (page: Page) => Locator][],
) {
  const all = (of: "says" | "well") =>
    pages.map(async ([name, page, says, well]) => {
      const from = performance.now();
      await page
        .getByText(of === "says" ? says : well)
        .first()
        .waitFor();
      const took = ((performance.now() - from) / 1000).toFixed(1);
      seconds.push(`${part} ${of === "says" ? "gone" : "back"}, ${name}: ${took} s`);
    });
  const wait = async (of: "says" | "well") => {
    await Promise.all(all(of));
  };
  for (const [, page] of pages) await page.evaluate(() => Object.assign(window, { isTheSamePage: true }));
  await parts.kill(part);
  await wait("says");
  for (const [, page, , , age] of pages) await age(page).first().waitFor();
  await parts.run(part);
  for (const [, page, says] of pages) await page.getByText(says).first().waitFor({ state: "detached" });
  await wait("well");
  for (const [, page] of pages) expect(await page.evaluate(() => "isTheSamePage" in window)).toBe(true);
}

test("each page says which part is gone, and goes on when it is back", async () => {
  const objects = await open("/services/shop@edge?tab=objects");
  const events = await open("/services/shop@edge?tab=events");
  const cluster = await open("/clusters/edge");
  await objects.getByRole("row", { name: /Deployment web/ }).waitFor();
  await events.getByText("What the agent does from now on appears here, too.").waitFor();
  await cluster.getByText("Connected", { exact: true }).first().waitFor();

  await without("tunnel", [
    ["events", events, "The hub does not answer", "What the agent does from now on appears here, too.", readAge],
    ["objects", objects, "What is shown was read", "2 objects, all well", readAge],
  ]);
  await without("agent", [
    ["cluster", cluster, "The cluster is not connected.", "Connected", seenAge],
    ["events", events, "The cluster is not connected", "What the agent does from now on appears here, too.", readAge],
    ["objects", objects, "The cluster is not connected", "2 objects, all well", readAge],
  ]);
  await without("distributor", [
    ["cluster", cluster, "Reconnecting", "Live", headerAge],
    ["events", events, "Reconnecting", "Live", headerAge],
    ["objects", objects, "Reconnecting", "Live", headerAge],
  ]);

  // Redis holds nothing that a page reads, so what is shown stays, and what is asked for is answered.
  await parts.kill("redis");
  await objects.reload();
  await objects.getByRole("row", { name: /Deployment web/ }).waitFor();
  const repository = await open("/repositories/demo");
  await repository.getByRole("button", { name: "Fetch now", exact: true }).click();
  // Which answer it is depends on whether gitcache has lost its leases by then. One that is good leaves after seconds, so
  // it is found and read in one step.
  const answer = repository
    .locator("[role=alert]:not(:empty)")
    .or(repository.getByText("demo is as its upstream."))
    .first();
  seconds.push(`redis gone, fetch now: ${(await answer.textContent())?.slice(0, 200)}`);
  await parts.run("redis");
  process.stdout.write(`${seconds.join("\n")}\n`);
});

test("a person with few rights sees what concerns them, and is offered nothing that would be refused", async () => {
  const token = (await parts.leat("create", "token", "ada", "--label", "browser")).trim();
  const page = await open("/", token);
  const main = page.locator("main");
  const go = async (path: string) => {
    await page.goto(`${parts.origin}/ui${path}`);
    await main.getByRole("heading").first().waitFor();
    await page.waitForFunction(() => !document.querySelector("main [role=status] > .unseen"));
  };
  parts.answered.length = 0;
  const shown: string[] = [];
  for (const path of [
    "/",
    "/services",
    "/clusters",
    "/repositories",
    "/rollouts",
    "/global-services",
    "/fleet-sources",
    "/access",
    "/audit",
    "/me",
    "/services/shop@edge",
    "/services/shop@edge?tab=objects",
    "/services/shop@edge?tab=events",
    "/services/shop@edge?tab=logs",
    "/services/shop@edge?tab=diff",
    "/services/shop@edge?tab=revisions",
    "/clusters/edge",
    "/clusters?view=map",
    "/services/shop@edge?tab=metrics",
    "/services/shop@edge?tab=config",
    "/services/shop@edge?why=true",
    "/projects",
    "/projects/default",
    "/configuration",
    "/clusters/edge/resources",
    "/clusters/edge/resources?namespace=shop",
    "/clusters/edge/resources?kind=deployments.apps&namespace=shop",
    "/clusters/edge/resources/apps/v1/deployments/shop/web",
    "/clusters/edge/resources/apps/v1/deployments/shop/web?tab=yaml",
    "/clusters/edge/resources?kind=nodes",
    "/resources",
    "/resources?kind=deployments.apps&namespace=shop&filter=name%3D*",
    "/resources?kind=nodes&clusters=edge",
    "/recordings",
    "/recordings/1a",
    "/access?cluster=edge&verb=get&resource=pods",
  ]) {
    await go(path);
    const text = (await main.textContent()) ?? "";
    if (/\btill|\bfar\b|vault/.test(text)) shown.push(`${path} shows what ada may not see: ${text.slice(0, 300)}`);
  }
  expect(shown).toEqual([]);

  // The agent's own calls, the record of changes, and recordings are not theirs. Pages ask before they call.
  const refused = parts.answered.filter(({ code }) => code === "403" || code === "7").map(({ path }) => path);
  expect([...new Set(refused)].sort()).toEqual([]);
  for (const [path, permission] of [
    ["/services/shop@edge?tab=objects", "get services/inventory"],
    ["/services/shop@edge?tab=events", "get services/inventory"],
    ["/services/shop@edge?tab=diff", "get services/diff"],
    ["/audit", "list auditrecords"],
    ["/recordings", "list recordings"],
  ] as const) {
    await go(path);
    await main.getByText(`no binding gives ada the permission "${permission}" there`).waitFor();
  }

  // A link to what they may not see says no more than one to what does not exist.
  for (const path of ["/services/till@far", "/clusters/far", "/repositories/vault"]) {
    await go(path);
    await main.getByRole("heading", { name: "There is no such object" }).waitFor();
    await main.getByText("Objects outside of your bindings are not shown.").waitFor();
  }

  await go("/services/shop@edge");
  for (const [name, verb] of [
    ["Sync now", "sync"],
    ["Pause", "pause"],
  ]) {
    const control = page.getByRole("button", { name: name as string, exact: true });
    await page.locator(`button[title*="The hub says"]`).first().waitFor();
    expect(await control.getAttribute("aria-disabled")).toBe("true");
    expect(await control.getAttribute("title")).toBe(
      `No binding lets you ${verb} services here. ` +
        `The hub says: no binding gives ada the permission "${verb} services" there`,
    );
  }
});
