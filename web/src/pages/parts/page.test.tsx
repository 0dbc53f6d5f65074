// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { expectAccessible, render } from "../../../test/render.tsx";
import { StatusMessages } from "../../parts/status.tsx";
import { PartsPage } from "./page.tsx";

const show = () =>
  render(
    <>
      <PartsPage />
      <StatusMessages />
    </>,
  );

test("every part in every state is accessible, in both themes and at each size", async () => {
  show();
  await expect.element(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expectAccessible();
});

test("the dialog takes the focus, keeps it, and gives it back", async () => {
  show();
  const opener = page.getByRole("button", { name: "Open the dialog" });
  await opener.click();
  await expect.element(page.getByRole("dialog", { name: "Sync 12 services?" })).toBeVisible();
  await expectAccessible();
  await userEvent.keyboard("{Escape}");
  await expect.element(opener).toHaveFocus();
});

test("the menu is moved through by keys", async () => {
  show();
  await page.getByRole("button", { name: "Open the example menu" }).click();
  await expect.element(page.getByRole("menuitemradio", { name: "As the system" })).toBeChecked();
  await userEvent.keyboard("{ArrowDown}");
  await expectAccessible();
  await userEvent.keyboard("{Escape}");
  await expect.element(page.getByRole("button", { name: "Open the example menu" })).toHaveFocus();
});

test("the palette runs what its keys choose", async () => {
  show();
  await page.getByRole("button", { name: "Open the palette" }).click();
  await expect.element(page.getByRole("combobox", { name: "Go to" })).toHaveFocus();
  await expectAccessible();
  await userEvent.keyboard("{ArrowDown}{Enter}");
  await expect.element(page.getByRole("status").getByText("berlin")).toBeVisible();
});

test("a refused button says why, and does nothing", async () => {
  show();
  const button = page.getByRole("button", { name: "Refused", exact: true });
  await expect.element(button).toHaveAccessibleDescription(/permission to sync/);
  await expect.element(button).toHaveAttribute("aria-disabled", "true");
});

test("a link that is not a web address is text", async () => {
  show();
  await expect.element(page.getByText("ftp://files.example.com/web.tar")).toBeVisible();
  expect(document.querySelector('a[href^="ftp"]')).toBeNull();
  for (const link of document.querySelectorAll('a[target="_blank"]')) {
    expect(link.getAttribute("rel")).toBe("noopener noreferrer");
  }
});
