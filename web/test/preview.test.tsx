// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { DiffAction, type DiffRequest } from "../src/gen/leat/agent/v1/agent_pb";
import type { PreviewServiceRequest } from "../src/gen/leat/fleet/v1/fleet_pb";
import { type Answers, ago, refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const can = ["sync", "pause", "rollback", "preview"];
const commit = "8".repeat(40);

const changed = (name: string, action: DiffAction) => ({
  ref: { group: "", version: "v1", kind: "ConfigMap", namespace: "shop", name },
  action,
  unified: `@@ -1 +1 @@\n-a: 1\n+a: ${name}\n`,
});

/** Opens the differences of a service, whose hub resolves every ref, and returns what was asked. */
function openDiff(search: string, change: Partial<Answers> = {}) {
  const previews: PreviewServiceRequest[] = [];
  const diffs: DiffRequest[] = [];
  const { router } = open(`/services/cart@berlin?tab=diff${search}`, {
    can,
    ...change,
    fleet: {
      previewService: (request) => {
        previews.push(request);
        const bundle = {
          digest: `sha256:${request.ref?.selector.value}`,
          commit,
          repository: "demo",
          path: "apps/cart",
        };
        return { cluster: "berlin", service: { bundles: [bundle] }, expireTime: ago(-15) };
      },
      ...change.fleet,
    },
    agent: {
      diff: (request) => {
        diffs.push(request);
        if (request.bundles.length === 0) return { objects: [] };
        return { objects: [changed("new", DiffAction.CREATE), changed("old", DiffAction.DELETE)] };
      },
      ...change.agent,
    },
  });
  return { router, previews, diffs };
}

const button = (name: string) => page.getByRole("button", { name, exact: true });
const field = () => page.getByRole("textbox", { name: "Ref" });

describe("a preview of a ref", () => {
  test("a ref that is typed is in the address, and its counts come first", async () => {
    const { router, previews, diffs } = openDiff("");
    await expect.element(page.getByText("Nothing would change")).toBeVisible();
    await expect.element(button("Preview")).not.toHaveAttribute("aria-disabled");
    expect(previews).toEqual([]);
    await page.getByRole("combobox", { name: "Repository" }).selectOptions("demo");
    await field().fill("feature/basket");
    await userEvent.keyboard("{Enter}");
    // The hub knows of twelve objects.
    await expect.element(page.getByText("1 deleted, 1 created, 11 the same")).toBeVisible();
    expect(router.state.location.search).toEqual({ tab: "diff", ref: "feature/basket", repository: "demo" });
    expect(previews.map(({ name, ref, repository }) => [name, ref?.selector, repository])).toEqual([
      ["cart@berlin", { case: "branch", value: "feature/basket" }, "demo"],
    ]);
    expect(diffs.map(({ bundles }) => bundles.map(({ digest }) => digest))).toEqual([[], ["sha256:feature/basket"]]);
    await expect.element(page.getByRole("link", { name: "88888888" })).toBeVisible();
    await expect
      .element(page.getByText("leat diff service/cart@berlin --ref feature/basket --repository demo"))
      .toBeVisible();
    await expectAccessible();
    await button("Back to what it follows").click();
    await expect.element(page.getByText("Nothing would change")).toBeVisible();
    expect(router.state.location.search).toEqual({ tab: "diff" });
  });

  test("a pasted link shows the same, and one object is open by the address", async () => {
    const { router, previews } = openDiff("&ref=tag%3Av1.4.0&repository=demo");
    await expect.element(field()).toHaveValue("tag:v1.4.0");
    await page.getByRole("button", { name: /ConfigMap new/ }).click();
    await expect.element(page.getByText("+a: new")).toBeVisible();
    expect(router.state.location.search).toMatchObject({ ref: "tag:v1.4.0", object: "ConfigMap/shop/new" });
    expect(previews[0]?.ref?.selector).toEqual({ case: "tag", value: "v1.4.0" });
    expect(previews).toHaveLength(1);
  });

  test("a comparison again resolves the ref again", async () => {
    const { previews, diffs } = openDiff("&ref=main&repository=demo");
    await button("Compare again").click();
    await expect.poll(() => diffs.length).toBe(2);
    expect(previews).toHaveLength(2);
  });

  test("a repository that the service does not have is not asked for", async () => {
    const { previews } = openDiff("&ref=main&repository=payroll");
    await expect.element(page.getByText("11 the same", { exact: false })).toBeVisible();
    expect(previews[0]?.repository).toBe("");
  });

  test("a ref that is not there has the hub's words and its advice", async () => {
    const { diffs } = openDiff("&ref=nowhere", {
      fleet: {
        previewService: () => {
          throw refusal(Code.FailedPrecondition, "REF_NOT_FOUND", 'repository demo has no branch "nowhere"');
        },
      },
    });
    await expect.element(page.getByText('repository demo has no branch "nowhere"')).toBeVisible();
    await expect.element(page.getByText("It may not have been pushed yet.", { exact: false })).toBeVisible();
    expect(diffs).toEqual([]);
    await expectAccessible();
  });

  test("a ref of which nothing is delivered is never compared as if it were the present content", async () => {
    const { diffs } = openDiff("&ref=main", { fleet: { previewService: () => ({ service: {} }) } });
    await expect.element(page.getByText("The hub delivers nothing for this ref", { exact: false })).toBeVisible();
    expect(diffs).toEqual([]);
  });

  test("who may not preview is told so, and the hub is not asked", async () => {
    const { previews, diffs } = openDiff("&ref=main", { can: ["sync"] });
    await expect
      .element(button("Preview"))
      .toHaveAttribute("title", expect.stringContaining("No binding lets you preview services here."));
    await expect
      .element(page.getByRole("main").getByText("No binding lets you preview services here.", { exact: false }).last())
      .toBeVisible();
    expect([previews, diffs]).toEqual([[], []]);
    await expectAccessible();
  });

  test("an object that is refused leaves open how many stay the same", async () => {
    openDiff("&ref=main", { agent: { diff: () => ({ objects: [changed("odd", DiffAction.REFUSE)] }) } });
    await expect.element(page.getByText("1 refused", { exact: true })).toBeVisible();
    expect(page.getByText("the same").elements()).toHaveLength(0);
  });

  test("names of a repository are text", async () => {
    const evil = '<img src=x onerror="document.title=1">';
    openDiff(`&ref=${encodeURIComponent(evil)}`, {
      fleet: {
        previewService: () => ({
          service: { bundles: [{ digest: "sha256:1", commit, repository: evil, path: `javascript:${evil}` }] },
        }),
      },
    });
    await expect.element(page.getByText(`What the service would be at ${evil}:`)).toBeVisible();
    expect(document.querySelector("#app img, main a[href^=javascript]")).toBeNull();
  });
});
