// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Up } from "./hub.ts";

// A terminal as far as a control plane without a kubelet goes: the browser, the tunnel, the agent and the API server are
// real, and agree to speak; then the API server looks for the kubelet, and says in the channel of errors that it finds none.

const folder = mkdtempSync(join(tmpdir(), "leat-terminal-"));
const up = new Up(join(folder, "up"));
let browser: Browser;

beforeAll(async () => {
  await up.start();
  browser = await chromium.launch({
    executablePath: process.env.LEAT_CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: process.getuid?.() !== 0,
  });
});

afterAll(async () => {
  await browser?.close();
  await up.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a terminal opens beside its pod, and reaches the cluster's API server through the tunnel", async () => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(300_000); // only a hang reaches it
  const complaints: string[] = [];
  context.on("weberror", (error) => complaints.push(String(error.error())));
  context.on("console", (message) => {
    if (/Content Security Policy|Trusted ?Type/i.test(message.text())) complaints.push(message.text());
  });
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
