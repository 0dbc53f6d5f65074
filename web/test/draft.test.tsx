// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { beforeEach, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { makeHub } from "./hub.ts";
import { object, reachApi } from "./reach.ts";
import { render } from "./render.tsx";

beforeEach(() => sessionStorage.clear());

/** Opens a page of a person whose session can end, and who may sign in again as somebody else. */
function open(path: string) {
  let person = "ada";
  const { hub } = makeHub({
    sessions: {
      createAccessToken: () => ({ accessToken: "a.b.c", session: { id: person, person, groups: ["leat:admins"] } }),
    },
    kube: reachApi({ objects: [object("cart", { data: { greeting: "hello" } })] }).kube,
  });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return {
    router,
    async endAndSignIn(next = "ada") {
      hub.tokens.expire();
      await expect.element(page.getByText(/^Your session has ended/)).toBeVisible();
      person = next;
      await page.getByLabelText("API token").fill("leat_made_up");
      await userEvent.keyboard("{Enter}");
      await expect.element(page.getByRole("button", { name: `Signed in as ${next}` })).toBeVisible();
    },
  };
}

/** Only a hang reaches this. */
const polling = { timeout: 60_000 };
const button = (name: string) => page.getByRole("button", { name, exact: true });
const reason = page.getByRole("textbox", { name: "Reason (optional)" });

async function pause() {
  await expect.element(button("Pause")).not.toHaveAttribute("aria-disabled", "true");
  await button("Pause").click();
}

test("a reason outlives the session, and is in no storage", async () => {
  const { router, endAndSignIn } = open("/services/cart@berlin?tab=revisions");
  await pause();
  await reason.fill("ticket 42");
  expect(JSON.stringify([{ ...localStorage }, { ...sessionStorage }])).not.toContain("ticket 42");
  await endAndSignIn();
  await expect.element(page.getByRole("tab", { name: "Revisions", selected: true })).toBeVisible();
  expect(router.state.location.href).toBe("/services/cart@berlin?tab=revisions");
  await pause();
  await expect.element(reason).toHaveValue("ticket 42");
  // What a person gives up is gone.
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await pause();
  await expect.element(reason).toHaveValue("");
});

test("nobody else who signs in reads what was typed", async () => {
  const { endAndSignIn } = open("/services/cart@berlin");
  await pause();
  await reason.fill("ticket 43");
  await endAndSignIn("bob");
  await pause();
  await expect.element(reason).toHaveValue("");
});

test("an edit goes on where it was", async () => {
  const { endAndSignIn } = open("/clusters/berlin/resources/core/v1/configmaps/shop/cart?tab=yaml");
  const yaml = page.getByRole("textbox", { name: "YAML of cart" });
  const shown = () => yaml.query()?.textContent;
  await button("Edit").click();
  await expect.element(button("See what changes")).toBeVisible();
  await expect.element(yaml).toHaveAttribute("aria-readonly", "false");
  await yaml.click();
  await userEvent.keyboard("{Control>}{End}{/Control}  more: again");
  await expect.poll(shown, polling).toContain("more: again");
  await endAndSignIn();
  await expect.element(button("See what changes")).toBeVisible();
  await expect.poll(shown, polling).toContain("more: again");
  await button("Discard").click();
  await button("Edit").click();
  await expect.element(button("See what changes")).toBeVisible();
  await expect.poll(shown, polling).toContain("greeting: hello");
  expect(shown()).not.toContain("more: again");
});
