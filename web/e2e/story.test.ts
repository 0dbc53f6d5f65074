// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, newcomer } from "./browser.ts";
import { Up } from "./hub.ts";

// The story of a person who opens the UI, follows a commit, acts, and keeps the page open while the hub dies. The hub,
// the Git host and the cluster's API server are real, and so is the browser.

const folder = mkdtempSync(join(tmpdir(), "leat-e2e-"));
const up = new Up(join(folder, "up"));
let browser: Browser;

beforeAll(async () => {
  await up.start();
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await up.stop();
  rmSync(folder, { recursive: true, force: true });
});

const greeting = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: greeting\ndata:\n  text: hello\n";

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
/** Opens one of the pages, and returns when it is there: the one before has links of the same names. */
async function go(page: Page, name: string) {
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
}

test("a person follows a commit, acts, and keeps the page open while the hub is killed", async () => {
  const complaints: string[] = [];
  const page = await (await newcomer(browser, complaints)).newPage();
  await page.goto(up.link());
  await page.getByRole("heading", { level: 1, name: "All is well" }).waitFor();
  expect(page.url()).toBe(`${up.origin}/ui/`);
  // A page that is loaded again loses this.
  await page.evaluate(() => Object.assign(window, { isTheSamePage: true }));

  // A commit arrives.
  await go(page, "Repositories");
  await page.getByRole("link", { name: "demo", exact: true }).click();
  const work = join(folder, "work");
  mkdirSync(work);
  const commit = up.push(
    work,
    "deploy/deployment.yaml",
    (yaml) => `${yaml.replace("replicas: 2", "replicas: 3").trimEnd()}\n${greeting}`,
  );
  await button(page, "Fetch now").click();
  await page.getByText("demo is as its upstream.").first().waitFor();
  await go(page, "Services");
  await page.getByRole("link", { name: "demo", exact: true }).first().click();
  await page
    .getByRole("link", { name: commit.slice(0, 8) })
    .first()
    .waitFor();
  await page.getByRole("tab", { name: "Objects" }).click();
  const deployment = page.getByRole("row", { name: /Deployment hello/ });
  await deployment.getByText("Healthy").waitFor();
  expect(up.leat("get", "service", "demo", "-o", "json")).toContain(commit);

  // What the cluster says comes through the tunnel, in this person's name.
  await deployment.focus();
  await page.keyboard.press("ArrowRight");
  await page
    .getByRole("row", { name: /ReplicaSet hello-/ })
    .first()
    .waitFor();

  // The resources of the cluster are as its API server prints them. An edit in another tab is tried, made, and arrives.
  await go(page, "Clusters");
  await page.getByRole("link", { name: "demo", exact: true }).click();
  await page.getByRole("link", { name: "All resources" }).click();
  await page.getByRole("link", { name: /^ConfigMap/ }).click();
  await page.getByRole("columnheader", { name: /^Data/ }).waitFor();
  const row = page.getByRole("row", { name: /greeting/ });
  await row.getByRole("gridcell", { name: "1", exact: true }).waitFor();
  const tab = await page.context().newPage();
  await tab.goto(up.origin + (await row.getByRole("link").getAttribute("href")));
  await tab.getByRole("tab", { name: "YAML" }).click();
  await button(tab, "Edit").click();
  await tab.locator("[aria-label='YAML of greeting'][aria-readonly=false]").click();
  await tab.keyboard.press("Control+End");
  await tab.keyboard.type("  more: again");
  await button(tab, "See what changes").click();
  await button(tab, "Apply").waitFor();
  await tab.getByText("more: again").waitFor();
  await row.getByRole("gridcell", { name: "1", exact: true }).waitFor();
  await button(tab, "Apply").click();
  await tab.getByText("greeting was changed.").first().waitFor();
  await row.getByRole("gridcell", { name: "2", exact: true }).waitFor();
  await tab.close();
  await go(page, "Services");
  await page.getByRole("link", { name: "demo", exact: true }).first().click();

  // An action with a reason is on record.
  await button(page, "Pause").click();
  await page.getByRole("textbox", { name: "Reason (optional)" }).fill("ticket é 42");
  await page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true }).click();
  await button(page, "Resume").waitFor();
  expect(up.leat("get", "service", "demo", "-o", "json")).toContain('"paused": true');
  await go(page, "Audit");
  await page.getByText("“ticket é 42”").first().waitFor();
  await page.goBack();

  // The hub dies. The page says so, shows its last word in grey, and goes on when the hub is back.
  const connection = page.locator("header").getByRole("status");
  await connection.getByText("Live").waitFor();
  await up.kill();
  await connection.getByText("Reconnecting").waitFor();
  await up.start();
  await connection.getByText("Live").waitFor();
  await button(page, "Resume").click();
  await button(page, "Pause").waitFor();
  expect(await page.evaluate(() => "isTheSamePage" in window)).toBe(true);

  // Signed out, the browser has nothing that signs it in.
  await button(page, "Signed in as admin").click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByLabel("API token").waitFor();
  // The page leaves at once, and the cookie goes with the hub's answer.
  await expect.poll(() => page.context().cookies()).toEqual([]);
  expect(complaints).toEqual([]);
});

// A control plane without a kubelet agrees to speak; then its API server looks for the kubelet, and says in the channel
// of errors that it finds none.
test("a terminal opens beside its pod, and says what the cluster's API server says", async () => {
  const complaints: string[] = [];
  const context = await newcomer(browser, complaints);
  const page = await context.newPage();
  await page.goto(up.link());
  await page.getByRole("heading", { level: 1, name: "All is well" }).waitFor();
  await page.goto(`${up.origin}/ui/services/demo?tab=objects`);
  await page.getByRole("row", { name: /Deployment hello/ }).focus();
  await page.keyboard.press("ArrowRight");
  const opened = context.waitForEvent("page");
  await page
    .getByRole("link", { name: /^Terminal/ })
    .first()
    .click();
  const terminal = await opened;
  await terminal.getByText("This session is not recorded.").waitFor();
  await terminal.locator("button:not([aria-disabled])", { hasText: "Start" }).click();
  await terminal.getByText("The container could not run it").waitFor();
  await terminal.getByText("error sending request", { exact: false }).waitFor();
  await terminal.getByRole("button", { name: "Start again" }).waitFor();
  // The page that it was opened from is as it was.
  expect(page.url()).toContain("/ui/services/demo?tab=objects");
  expect(complaints).toEqual([]);
});
