// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { GetRecordingResponseSchema } from "../src/gen/leat/tunnel/v1/tunnel_pb";
import { startBuilt } from "./built.ts";

/** Returns a message of a stream. */
function framed(flags: number, body: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

test("a terminal's screen breaks no rule of the policy, in all of its colours", async () => {
  const { base, newPage, close } = await startBuilt();
  try {
    const page = await newPage();
    const broken: string[] = [];
    await page.exposeFunction("leatReport", (text: string) => broken.push(text));
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => {
        const report = (globalThis as unknown as { leatReport: (text: string) => void }).leatReport;
        report(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`);
      });
    });
    page.on("pageerror", (error) => broken.push(String(error)));
    const output =
      "\\u001b[38;2;200;30;30mred\\u001b[0m \\u001b[4;58;2;1;2;3munderlined\\u001b[0m \\u001b[48;5;196mground\\u001b[0m\\r\\n";
    const file = `{"version":2,"width":80,"height":24}\n[1,"o","${output}"]\n[2,"o","the end"]\n`;
    const message = create(GetRecordingResponseSchema, { data: new TextEncoder().encode(file) });
    await page.route("**/GetRecording", (route) =>
      route.fulfill({
        contentType: "application/connect+proto",
        body: Buffer.concat([
          framed(0, toBinary(GetRecordingResponseSchema, message)),
          framed(2, new TextEncoder().encode("{}")),
        ]),
      }),
    );
    await page.goto(`${base}/recordings/1a?at=2`);
    await page.locator(".xterm-rows", { hasText: "the end" }).waitFor();
    expect(broken).toEqual([]);
    // The styles apply: the nonce of the page allows those of the terminal.
    const red = page.locator(".xterm-rows span", { hasText: "red" }).first();
    expect(await red.evaluate((span) => getComputedStyle(span).color)).not.toBe(
      await page.locator(".xterm-rows").evaluate((rows) => getComputedStyle(rows).color),
    );
    expect(await page.locator(".xterm style").evaluateAll((all) => all.length)).toBeGreaterThan(0);
  } finally {
    await close();
  }
});
