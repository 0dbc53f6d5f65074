// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { afterAll, beforeAll, expect, test } from "vitest";
import { type Built, startBuilt } from "./built.ts";

// The hub is upgraded while a page is open: its scripts are gone, and its page names others.

let built: Built;
beforeAll(async () => {
  built = await startBuilt();
});
afterAll(() => built?.close());

const anotherBuild = (path: string, content: Buffer) =>
  path === "/index.html" ? Buffer.from(content.toString().replace(/index-[\w-]+\.js/, "index-upgraded.js")) : content;

async function open() {
  built.serve = (_, content) => content;
  const page = await built.newPage();
  let loads = 0;
  page.on("load", () => {
    loads += 1;
  });
  await page.goto(`${built.base}/`);
  await page.getByText("No cluster has joined yet").waitFor();
  return { page, loads: () => loads };
}

test("a page whose script is gone says so, and reloads when the person wants it", async () => {
  const { page, loads } = await open();
  // A link to a page loads it when the pointer is over it, so the scripts are gone before.
  built.serve = (path, content) =>
    path.startsWith("/assets/") && !built.html.includes(path) ? undefined : anotherBuild(path, content);
  await page.getByRole("link", { name: "Clusters" }).first().click();
  await page.getByText("This page did not load").waitFor();
  await page.getByText("The hub has another version of this page.").waitFor();
  // What is around the page is still there, and nothing has reloaded.
  await page.getByRole("button", { name: "Signed in as ada" }).waitFor();
  expect(loads()).toBe(1);
  expect(await page.evaluate(() => Object.keys(sessionStorage))).toEqual([]);

  built.serve = (_, content) => content;
  await page.getByRole("alert").getByRole("button", { name: "Reload" }).click();
  await page.getByText("No cluster yet").waitFor();
  expect(loads()).toBe(2);
  await page.close();
});

test("a palette whose script is gone says so, and the page goes on", async () => {
  const { page } = await open();
  built.serve = (path, content) => (path.includes("finder") ? undefined : anotherBuild(path, content));
  await page.keyboard.press("Control+k");
  await page.getByText("This part of the page did not load.").waitFor();
  await page.getByText("No cluster has joined yet").waitFor();
  await page.close();
});

test("a page that finds the hub again offers the build that it serves now", async () => {
  const { page, loads } = await open();
  // Every stream of this hub breaks, so the page finds it again and again.
  built.serve = anotherBuild;
  await page.getByText("The hub has another version of this page.").waitFor();
  expect(loads()).toBe(1);
  built.serve = (_, content) => content;
  await page.getByText("The hub has another version of this page.").waitFor({ state: "detached" });
  await page.close();
});
