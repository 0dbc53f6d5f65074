// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { DiffAction } from "../src/gen/leat/agent/v1/agent_pb";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const ref = (kind: string, name: string, group = "") => ({ group, version: "v1", kind, namespace: "shop", name });
const objects = [
  {
    ref: ref("Deployment", "cart", "apps"),
    action: DiffAction.UPDATE,
    unified: "@@ -6,3 +6,3 @@\n spec:\n-  replicas: 2\n+  replicas: 3\n   selector: {}\n",
  },
  { ref: ref("Secret", "cart"), action: DiffAction.CREATE, unified: "@@ -0,0 +1,2 @@\n+data:\n+  key: (masked)\n" },
  {
    ref: ref("PersistentVolumeClaim", "data"),
    action: DiffAction.DELETE,
    unified: "@@ -1 +0,0 @@\n-kind: PersistentVolumeClaim\n",
    problem: { reason: Reason.PRUNE_GUARDED, message: "the guard stops the deletion of 1 of 1 claims" },
  },
];

const head = (name: RegExp) => page.getByRole("button", { name });

describe("what a run would change", () => {
  test("the most dangerous is first, and one object is open at a time, by the address", async () => {
    const { router } = open("/services/cart@berlin?tab=diff", { agent: { diff: () => ({ objects }) } });
    await expect.element(page.getByText("1 deleted, 1 changed, 1 created")).toBeVisible();
    expect(
      head(/^Delete|^Change|^Create/)
        .elements()
        .map((each) => each.textContent?.match(/^[A-Z]\w*?(?=[A-Z])/)?.[0]),
    ).toEqual(["Delete", "Change", "Create"]);
    (head(/Deployment cart/).element() as HTMLElement).focus();
    await userEvent.keyboard("{Enter}");
    await expect.element(page.getByText("+ replicas: 3")).toBeVisible();
    expect(router.state.location.search).toEqual({ tab: "diff", object: "apps/Deployment/shop/cart" });
    await expectAccessible();
    await head(/PersistentVolumeClaim data/).click();
    await expect.element(page.getByText("the guard stops the deletion of 1 of 1 claims")).toBeVisible();
    await expect.element(page.getByText("+ replicas: 3")).not.toBeInTheDocument();
    await expectAccessible();
  });

  test("it is compared when asked, and not by itself", async () => {
    let asked = 0;
    open("/services/cart@berlin?tab=diff", {
      agent: {
        diff: () => {
          asked += 1;
          return { objects: asked === 1 ? objects : [] };
        },
      },
    });
    await page.getByRole("button", { name: "Compare again" }).click();
    await expect.element(page.getByText("Nothing would change")).toBeVisible();
    expect(asked).toBe(2);
    await expectAccessible();
  });

  test("who may not is told what would allow it", async () => {
    open("/services/cart@berlin?tab=diff", {
      agent: {
        diff: () => {
          throw refusal(Code.PermissionDenied, "ACCESS_DENIED", 'you lack the permission "get services/diff"');
        },
      },
    });
    await expect.element(page.getByText('you lack the permission "get services/diff"')).toBeVisible();
    await expect.element(page.getByText("leat access berlin")).toBeVisible();
    await expectAccessible();
  });

  test("a difference of a megabyte is text, and is shown in part", async () => {
    const evil = "+<img src=x onerror=alert(1)>\u202e";
    const unified = Array.from({ length: 30_000 }, (_, index) => `${evil} ${index}`).join("\n");
    open("/services/cart@berlin?tab=diff&object=apps%2FDeployment%2Fshop%2Fcart", {
      agent: { diff: () => ({ objects: [{ ...objects[0], action: DiffAction.UPDATE, unified }] }) },
    });
    await expect.element(page.getByRole("button", { name: "Show 5,000 more lines" })).toBeVisible();
    expect(page.getByRole("region", { name: "Deployment cart" }).element().children).toHaveLength(1000);
    expect(document.querySelector("#app img")).toBeNull();
    await expect.element(page.getByText("U+202E").first()).toBeVisible();
  });
});
