// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { page } from "vitest/browser";
import { expectAccessible, render } from "../../test/render.tsx";
import { dismiss, StatusMessages, say } from "./status.tsx";

const announced = () => page.getByRole("status").element().textContent;

test("one message at a time is announced, and the earlier ones fold", async () => {
  render(<StatusMessages />);
  // A failure stays, so nothing of this depends on time.
  say("The hub refused to sync web@berlin", true);
  await expect.poll(announced).toContain("web@berlin");
  say("The hub refused to sync cart@berlin", true);
  await expect.poll(announced).toContain("cart@berlin");
  await expect.element(page.getByText("The hub refused to sync web@berlin")).toBeVisible();
  expect(announced()).not.toContain("web@berlin");
  say("The hub refused to sync search@berlin", true);
  await expect.element(page.getByRole("button", { name: "2 earlier messages" })).toBeVisible();
  expect(page.getByText("The hub refused to sync web@berlin").elements()).toHaveLength(0);
  expect(announced()).toBe("The hub refused to sync search@berlinDismiss");
  await expectAccessible();

  await page.getByRole("button", { name: "2 earlier messages" }).click();
  await expect.element(page.getByText("The hub refused to sync web@berlin")).toBeVisible();
  await expectAccessible();
  for (let left = 3; left > 0; left--) await page.getByRole("button", { name: "Dismiss" }).last().click();
  expect(page.getByRole("button").elements()).toHaveLength(0);
  // The region itself stays, or the next message would not be read.
  expect(announced()).toBe("");
  dismiss(0);
});
