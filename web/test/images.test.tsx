// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub } from "./hub.ts";
import { imageRow, imageRows } from "./images.ts";
import { expectAccessible, render } from "./render.tsx";

const policies =
  (rows = imageRows) =>
  (kind: string) =>
    kind === "ImagePolicy" ? rows() : undefined;

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub({ objects: policies(), ...change });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const button = (name: string) => page.getByRole("button", { name, exact: true });
const grid = () => page.getByRole("grid");

describe("image policies", () => {
  test("those with problems come first", async () => {
    const { router } = open("/image-policies");
    await expect.element(grid().getByText("shop/cart", { exact: true })).toBeVisible();
    const names = [...document.querySelectorAll("[role=row] a[href*=image-policies]")].map((link) => link.textContent);
    expect(names).toEqual(["shop/cart", "old", "seen", "web"]);
    await expect.element(grid().getByText("Has a problem")).toBeVisible();
    await expect.element(grid().getByText("1.4.2").first()).toBeVisible();
    await expect.element(page.getByText("leat get imagepolicies")).toBeVisible();
    await expectAccessible();
    await grid().getByText("shop/cart", { exact: true }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/image-policies/shop/cart");
  });

  test("a hub without one says what they are for", async () => {
    open("/image-policies", { objects: policies(() => []) });
    await expect.element(page.getByText("No image policy yet")).toBeVisible();
    await expectAccessible();
  });
});

describe("an image policy", () => {
  test("it has what it selects, by which rule, and what it writes where", async () => {
    open("/image-policies/web");
    await expect.element(page.getByText("registry.example.com/shop/web", { exact: true })).toBeVisible();
    await expect.element(page.getByText("the highest version, within >=1.2 <2")).toBeVisible();
    await expect.element(page.getByText("a pull request", { exact: true })).toBeVisible();
    await expect.element(page.getByText("3 lines")).toBeVisible();
    await expect
      .element(page.getByRole("link", { name: "demo", exact: true }))
      .toHaveAttribute("href", "/ui/repositories/demo");
    await expect
      .element(page.getByRole("link", { name: "git.example.com/shop/config/pulls/12", exact: false }))
      .toHaveAttribute("href", "https://git.example.com/shop/config/pulls/12");
    await expect.element(page.getByText("leat get imagepolicy web -o yaml")).toBeVisible();
    await expectAccessible();
  });

  test("one that no line names shows its problem and the comment to write", async () => {
    open("/image-policies/shop/cart");
    await expect
      .element(page.getByText("No line of a file below apps/shop names the policy", { exact: false }))
      .toBeVisible();
    await expect.element(page.getByText("# leat: image=shop/cart")).toBeVisible();
    await expectAccessible();
  });

  test("one that writes nothing says so", async () => {
    open("/image-policies/seen");
    await expect.element(page.getByText("Nothing: it only shows what it selects.")).toBeVisible();
    await expect
      .element(page.getByText("the greatest number, of tags that match ^main-(?P<version>[0-9]+)$"))
      .toBeVisible();
    await expectAccessible();
  });

  test("an address of a pull request that is no web address is no link", async () => {
    open("/image-policies/web", {
      objects: policies(() => [
        imageRow("web", (_, status) => {
          status.pullRequestUrl = "javascript:alert(1)";
        }),
      ]),
    });
    await expect.element(page.getByText("javascript:alert(1)")).toBeVisible();
    expect(document.querySelectorAll("a[href^=javascript]")).toHaveLength(0);
  });

  test("a sync lasts until a look has obeyed it", async () => {
    const asked: string[] = [];
    open("/image-policies/shop/cart", {
      images: {
        syncImagePolicy: ({ name }) => {
          asked.push(name);
          return { request: 3n };
        },
      },
    });
    await expect.element(button("Sync now")).not.toHaveAttribute("aria-disabled");
    await button("Sync now").click();
    await expect.element(page.getByText("Sync requested.", { exact: false })).toBeVisible();
    await expect.element(button("Looking now …")).toHaveAttribute("aria-busy", "true");
    expect(asked).toEqual(["shop/cart"]);
  });

  test("a suspended one says why it cannot be synced, and what the person may not do is there", async () => {
    open("/image-policies/old");
    await expect.element(button("Sync now")).toHaveAttribute("title", "It is suspended, so it looks at nothing.");
    await expectAccessible();
  });
});
