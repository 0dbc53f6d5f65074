// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Browser, type BrowserContext, chromium, type Page } from "playwright";

export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: process.env.LEAT_CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: process.getuid?.() !== 0,
  });

/** Opens a browser of somebody who is not signed in, and notes what it complains about. */
export async function newcomer(browser: Browser, complaints: string[] = []): Promise<BrowserContext> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(300_000); // only a hang reaches it
  context.on("weberror", (error) => complaints.push(String(error.error())));
  context.on("console", (message) => {
    if (/Content Security Policy|Trusted ?Type/i.test(message.text())) complaints.push(message.text());
  });
  return context;
}

/** Types an API token at the page that asks for one, and returns when the person is signed in. */
export async function typeToken(page: Page, token: string): Promise<void> {
  await page.getByLabel("API token").fill(token);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^Signed in as / }).waitFor();
}
