// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { create, toBinary } from "@bufbuild/protobuf";
import { chromium } from "playwright";
import { expect, test } from "vitest";
import { SessionServiceCreateAccessTokenResponseSchema } from "../src/gen/leat/fleet/v1/session_pb";

// The built UI under the policy that the hub sends with it. The hub itself is tried by Go tests; here a few lines of a
// server stand for it, so that a change of the UI alone finds what it breaks.

const folder = fileURLToPath(new URL("../node_modules/.policy", import.meta.url));
const types: Record<string, string> = { js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
const nonce = "dGhlIG5vbmNlIG9mIGEgdGVzdA";
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  `style-src 'self' 'nonce-${nonce}'`,
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const token = toBinary(
  SessionServiceCreateAccessTokenResponseSchema,
  create(SessionServiceCreateAccessTokenResponseSchema, { accessToken: "a.b.c", session: { person: "ada" } }),
);

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? "/", "http://leat.invalid");
  if (pathname.startsWith("/leat.")) {
    response.setHeader("content-type", "application/proto");
    // Streams fail, and every other answer is empty: both are states that the pages show.
    if (pathname.includes("/Watch")) response.statusCode = 503;
    response.end(pathname.endsWith("SessionService/CreateAccessToken") ? token : undefined);
    return;
  }
  const file = folder + pathname.replace(/^\/ui/, "");
  const extension = /\.(\w+)$/.exec(pathname)?.[1];
  if (extension !== undefined && existsSync(file)) {
    response.setHeader("content-type", types[extension] ?? "application/octet-stream");
    response.end(readFileSync(file));
    return;
  }
  response.setHeader("content-type", "text/html");
  response.setHeader("content-security-policy", policy);
  response.end(readFileSync(`${folder}/index.html`, "utf8").replaceAll("LEAT-NONCE", nonce));
});

test("the built UI breaks no rule of its policy, and keeps its token to itself", async () => {
  // As a process of its own, because the environment of tests makes another build than the one that people get.
  const env = { ...process.env, NODE_ENV: "production" };
  const args = ["node_modules/vite/bin/vite.js", "build", "--outDir", folder, "--emptyOutDir", "--logLevel", "error"];
  execFileSync(process.execPath, args, { cwd: fileURLToPath(new URL("..", import.meta.url)), env });
  const html = readFileSync(`${folder}/index.html`, "utf8");
  expect(html).toContain('nonce="LEAT-NONCE"');
  expect(html).not.toMatch(/<style|style=|<script(?![^>]* src=)|\son\w+=/);

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const browser = await chromium.launch({
    executablePath: process.env.LEAT_CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: process.getuid?.() !== 0,
  });
  try {
    const page = await browser.newPage();
    const broken: string[] = [];
    await page.exposeFunction("leatReport", (text: string) => broken.push(text));
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => {
        const report = (globalThis as unknown as { leatReport: (text: string) => void }).leatReport;
        report(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`);
      });
    });
    page.on("pageerror", (error) => broken.push(String(error)));
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ui`;

    await page.goto(`${base}/parts`);
    await page.getByRole("button", { name: "Open the dialog" }).click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Open the example menu" }).click();
    await page.getByRole("menu").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").waitFor();
    await page.keyboard.press("Escape");
    for (const [path, text] of [
      ["/", "No cluster has joined yet"],
      ["/services", "No service yet"],
      ["/clusters", "No cluster yet"],
      ["/repositories", "No repository yet"],
      ["/services/web@berlin", "The hub does not answer"],
      ["/clusters/berlin", "The hub does not answer"],
      ["/nowhere", "There is no such page"],
    ] as const) {
      await page.goto(base + path);
      await page.getByText(text).first().waitFor();
    }
    expect(broken).toEqual([]);
    const stored = await page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    );
    expect(stored).not.toContain("a.b.c");
    expect(page.url()).not.toContain("a.b.c");
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
});
