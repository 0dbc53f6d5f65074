// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Locator, Page } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, newcomer, typeToken } from "./browser.ts";
import { Cluster } from "./cluster.ts";
import { GitHost } from "./git.ts";
import { Parts } from "./parts.ts";

// Ten things that people come for, in a hub of 1,000 clusters, one of which is a real one. docs/guides/ui-tasks.md says
// how many presses each takes, and how many it takes elsewhere; this holds the page to it. Each begins on the front page,
// which the person has open. Seconds and bytes are printed, and held to nothing: a busy machine is slow, not broken.

const folder = mkdtempSync(join(tmpdir(), "leat-tasks-"));
const at = (name: string) => {
  mkdirSync(join(folder, name));
  return join(folder, name);
};
const cluster = new Cluster(at("cluster"));
const git = new GitHost(at("git"));
const parts = new Parts(at("parts"), { name: "edge", kubeconfig: cluster.kubeconfig });
let browser: Browser;

// The words of the ConfigMap arrive with each push, and the Deployment of the second one is refused.
const shop = (replicas: string, words: string) => `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: greeting, namespace: shop}
data: {text: "${words}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: ${replicas}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example.com/web:1"}]}
`;

beforeAll(async () => {
  await Promise.all([cluster.start(), git.start()]);
  git.push({ "shop/shop.yaml": () => shop("2", "hello") });
  await parts.start();
  const others = Array.from({ length: 999 }, (_, n) => `c-${String(n + 1).padStart(3, "0")}`);
  const apply = (documents: string[]) =>
    parts.apply(documents.map((document) => `apiVersion: leat.dev/v1\n${document}\n`).join("---\n"));
  await apply(others.map((name) => `kind: Cluster\nmetadata: {name: ${name}}`));
  await apply([
    `kind: Repository\nmetadata: {name: fleet}\nspec: {url: ${git.repository}, pollInterval: 10s}`,
    "kind: User\nmetadata: {name: ada}",
    ...["edge", "c-001"].map(
      (name) =>
        `kind: Service\nmetadata: {name: shop}\nspec: {cluster: ${name}, namespace: shop, ` +
        "sources: [{repository: fleet, ref: {branch: main}, path: shop}]}",
    ),
  ]);
  await parts.leat("wait", "service/shop@edge", "--for=healthy");
  git.push({ "shop/shop.yaml": () => shop("-1", "broken") });
  await parts.leat("sync", "repository/fleet");
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await parts.stop();
  await cluster.stop();
  git.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Hand is a person at the page, whose presses are counted: a click, a choice, and a text that is written. */
class Hand {
  presses = 0;

  constructor(public page: Page) {}

  async press(target: Locator): Promise<void> {
    this.presses += 1;
    await target.click();
  }

  link = (name: string | RegExp) => this.press(this.page.getByRole("link", { name, exact: true }).first());
  button = (name: string) =>
    this.press(this.page.locator("button:not([aria-disabled=true])", { hasText: new RegExp(`^${name}$`) }).first());
  tab = (name: string) => this.press(this.page.getByRole("tab", { name, exact: true }));

  async choose(target: Locator, index: number): Promise<void> {
    this.presses += 1;
    await target.selectOption({ index });
  }

  async write(target: Locator, words: string): Promise<void> {
    this.presses += 1;
    await target.fill(words);
  }
}

const cause = "1 service in 1 cluster";
const refusal = /spec.replicas: Invalid value: -1/;
/** The panel that says why a service is not well. */
const why = (page: Page) =>
  page.locator("section", { has: page.getByRole("heading", { name: "Why it is not well", exact: true }) });

/** Returns what the hub holds of the service, as documents write it. */
const held = async () => JSON.parse(await parts.leat("get", "service", "shop@edge", "-o", "json"));
const greeting = () => cluster.kubectl("get", "configmap", "greeting", "-n", "shop", "-o", "jsonpath={.data.text}");

interface Task {
  name: string;
  walk: (hand: Hand) => Promise<unknown>;
  /** Returns when what the person came for is on the page, or done. */
  isDone: (page: Page) => Promise<unknown>;
}

const tasks: Task[] = [
  {
    name: "Find what is broken in 1,000 clusters",
    walk: async () => {},
    isDone: (page) =>
      page.getByRole("listitem").filter({ hasText: cause }).getByRole("link", { name: "shop@edge" }).waitFor(),
  },
  {
    name: "See why",
    walk: (hand) => hand.link("shop@edge"),
    isDone: (page) => why(page).getByText(refusal).first().waitFor(),
  },
  {
    name: "See who changed it, and in which words",
    walk: (hand) => hand.link("shop@edge"),
    isDone: (page) =>
      page.getByRole("list", { name: "Who changed it" }).getByText("Change shop/shop.yaml").first().waitFor(),
  },
  {
    name: "See how far a commit has come",
    walk: (hand) => hand.link(/^[0-9a-f]{8}$/),
    isDone: (page) => page.getByText(/^\d of 2 services have it/).waitFor(),
  },
  {
    name: "Compare a service in all clusters",
    walk: async (hand) => {
      await hand.link("Services");
      await hand.write(hand.page.getByRole("search").getByRole("textbox"), "name=shop");
    },
    isDone: async (page) => {
      for (const name of ["edge", "c-001"]) await page.getByRole("row").filter({ hasText: name }).first().waitFor();
    },
  },
  {
    name: "Follow the log of all pods of a service",
    walk: async (hand) => {
      await hand.link("shop@edge");
      await hand.tab("Logs");
    },
    isDone: async (page) => {
      await page.getByText("The container has begun.").nth(1).waitFor(); // one for each pod
      cluster.write("order 4711 is paid");
      await page.getByText("order 4711 is paid").nth(1).waitFor();
    },
  },
  {
    name: "Open a shell in a pod",
    walk: async (hand) => {
      await hand.link("shop@edge");
      await hand.tab("Logs");
      await hand.choose(hand.page.getByRole("combobox", { name: "Pod" }), 1);
      const opened = hand.page.context().waitForEvent("page");
      await hand.link(/^Terminal/);
      hand.page = await opened;
      await hand.button("Start");
    },
    isDone: async (page) => {
      await page.getByText("Shift F6 leaves the terminal").waitFor();
      await page.keyboard.type("echo the sum is $((40+2))\n");
      await page.waitForFunction(() =>
        document.querySelector(".xterm-rows")?.textContent?.replaceAll("\u00a0", " ").includes("the sum is 42"),
      );
    },
  },
  {
    name: "Give a person access to a cluster for a day",
    walk: async (hand) => {
      await hand.link("Access");
      await hand.button("Give access");
      const dialog = hand.page.getByRole("dialog");
      await hand.write(dialog.getByRole("textbox", { name: "People" }), "ada");
      await hand.write(dialog.getByRole("textbox", { name: "Clusters" }), "edge");
      await hand.press(dialog.getByRole("button", { name: "Give", exact: true }));
    },
    isDone: async (page) => {
      await page.getByRole("dialog").waitFor({ state: "detached" });
      const { items } = JSON.parse(await parts.leat("get", "accessbindings", "-o", "json"));
      const [given] = items.filter(({ spec }: { spec: { users?: string[] } }) => spec.users?.includes("ada"));
      expect(given.spec).toMatchObject({ users: ["ada"], clusters: { names: ["edge"] }, role: "viewer" });
      expect(Math.round((Date.parse(given.spec.expireTime) - Date.now()) / 3_600_000)).toBe(24);
    },
  },
  {
    name: "Sync all that has failed",
    walk: async (hand) => {
      await hand.link(/^Failed/);
      await hand.press(hand.page.getByRole("checkbox", { name: /^Select all/ }));
      await hand.button("Sync");
      await hand.press(hand.page.getByRole("dialog").getByRole("button", { name: "Sync", exact: true }));
    },
    isDone: async (page) => {
      await page.getByText("1 Service done.").first().waitFor();
      expect((await held()).status.syncRequest).toMatch(/./);
    },
  },
  {
    name: "Roll a service back",
    walk: async (hand) => {
      await hand.link("shop@edge");
      await hand.tab("Revisions");
      await hand.press(hand.page.getByRole("button", { name: "Roll back to revision 1" }));
      await hand.press(hand.page.getByRole("dialog").getByRole("button", { name: "Roll back", exact: true }));
    },
    isDone: async (page) => {
      await page.getByText("Pinned to revision 1.").first().waitFor();
      await page
        .getByRole("row", { name: /^\d Healthy/ })
        .nth(1)
        .waitFor();
      expect(greeting()).toBe("hello");
    },
  },
];

test("ten tasks take as many presses as the table says", async () => {
  const page = readFileSync(fileURLToPath(new URL("../../docs/guides/ui-tasks.md", import.meta.url)), "utf8");
  const context = await newcomer(browser);
  const first = await context.newPage();
  await first.goto(`${parts.origin}/ui/`);
  await typeToken(first, parts.admin);
  await first.getByText(cause).waitFor();
  process.stdout.write(`the first visit, with a sign-in: ${Math.ceil(parts.bytes / 1000)} kB\n`);
  await first.close();
  const figures: string[] = [];
  const rows: string[] = [];
  for (const { name, walk, isDone } of tasks) {
    const hand = new Hand(await context.newPage());
    const before = parts.bytes;
    const from = performance.now();
    await hand.page.goto(`${parts.origin}/ui/`);
    await hand.page.getByText(cause).waitFor();
    await walk(hand);
    await isDone(hand.page);
    const took = (performance.now() - from) / 1000;
    figures.push(`${name}: ${hand.presses}, ${took.toFixed(1)} s, ${Math.ceil((parts.bytes - before) / 1000)} kB`);
    rows.push(`| ${name} | ${hand.presses} `);
    process.stdout.write(`${figures.at(-1)}\n`);
    for (const opened of context.pages()) await opened.close();
  }
  expect(rows.filter((row) => !page.includes(row))).toEqual([]);
});
