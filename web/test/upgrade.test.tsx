// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { expect, test, vi } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import { createBuilds } from "../src/hub/build.ts";
import { makeRouter } from "../src/shell/router.tsx";
import { makeHub } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

// Pages and palettes whose chunk is gone are tried with the built UI, in upgrade.test.ts.

function open() {
  const reload = vi.fn();
  const served = { script: "/ui/assets/index-1.js" };
  const read = async () => `<script type="module" crossorigin src="${served.script}"></script>`;
  const builds = createBuilds(served.script, read, reload);
  const { hub } = makeHub({ around: { builds } });
  const router = makeRouter(createMemoryHistory({ initialEntries: ["/ui/"] }));
  render(
    <>
      <App hub={hub} router={router} />
      <textarea aria-label="A form of the page" />
    </>,
  );
  return { reload, served, builds };
}

const offer = () => page.getByText("The hub has another version of this page.");
const reloadButton = () => page.getByRole("button", { name: "Reload", exact: true });

test("a new build is offered, and nothing reloads by itself", async () => {
  const { reload, served, builds } = open();
  await expect.element(page.getByRole("heading", { level: 1 })).toBeVisible();
  await builds.check();
  expect(offer().elements()).toHaveLength(0);
  served.script = "/ui/assets/index-2.js";
  await builds.check();
  await expect.element(offer()).toBeVisible();
  await expectAccessible();
  expect(reload).not.toHaveBeenCalled();
  await reloadButton().click();
  expect(reload).toHaveBeenCalledTimes(1);
});

test("typed text is not lost without a question", async () => {
  const { reload, served, builds } = open();
  await expect.element(page.getByRole("heading", { level: 1 })).toBeVisible();
  await page.getByRole("textbox", { name: "A form of the page" }).fill("a reason");
  served.script = "/ui/assets/index-2.js";
  await builds.check();
  await reloadButton().click();
  await expect.element(page.getByRole("dialog", { name: "Reload, and lose what you have typed?" })).toBeVisible();
  expect(reload).not.toHaveBeenCalled();
  await expectAccessible();
  await userEvent.keyboard("{Escape}");
  await expect.element(page.getByRole("textbox", { name: "A form of the page" })).toHaveValue("a reason");
  expect(reload).not.toHaveBeenCalled();
  await reloadButton().click();
  await page.getByRole("dialog").getByRole("button", { name: "Reload", exact: true }).click();
  expect(reload).toHaveBeenCalledTimes(1);
});
