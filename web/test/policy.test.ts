// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { startBuilt } from "./built.ts";

test("the built UI breaks no rule of its policy, and keeps its token to itself", async () => {
  const { base, newPage, html, close } = await startBuilt();
  try {
    expect(html).toContain('nonce="LEAT-NONCE"');
    expect(html).not.toMatch(/<style|style=|<script(?![^>]* src=)|\son\w+=/);
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
    await close();
  }
});

test("the menu of the account leads to the licences of what the page contains", async () => {
  const { base, newPage, close } = await startBuilt();
  try {
    const page = await newPage();
    await page.goto(base);
    await page.getByRole("button", { name: "Signed in as ada" }).click();
    const opened = page.context().waitForEvent("page");
    await page.getByRole("menuitem", { name: "Licences of this page" }).click();
    const licences = await (await opened).locator("body").textContent();
    for (const name of [
      "react-dom",
      "react-aria-components",
      "@bufbuild/protobuf",
      "@codemirror/view",
      "@xterm/xterm",
      "yaml",
    ]) {
      expect(licences).toContain(name);
    }
    expect(licences).toContain("Permission is hereby granted, free of charge");
    expect(licences).toContain("Apache License");
    expect(licences).toContain("Copyright 2008 Google Inc."); // in @bufbuild/protobuf, as a comment
  } finally {
    await close();
  }
});
