// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { documentsOf, heldRow, sourceRow, sourceRows } from "./fleet-sources.ts";
import { type Answers, makeHub } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

const sources =
  (rows = sourceRows) =>
  (kind: string) =>
    kind === "FleetSource" ? rows() : undefined;

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub({
    objects: sources(),
    sources: { listFleetSourceDocuments: (request) => documentsOf(request) },
    ...change,
  });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const button = (name: string) => page.getByRole("button", { name, exact: true });
const grid = () => page.getByRole("grid");
const document_ = (row = heldRow()) => ({ get: () => ({ document: row.document }) }) as NonNullable<Answers["fleet"]>;

describe("fleet sources", () => {
  test("those with problems and those that wait come first", async () => {
    const { router } = open("/fleet-sources");
    await expect.element(grid().getByText("shop/fleet", { exact: true })).toBeVisible();
    const names = [...document.querySelectorAll("[role=row] a[href*=fleet-sources]")].map((link) => link.textContent);
    expect(names).toEqual(["shop/fleet", "fleet", "try", "old", "edge/kiosks"]);
    await expect.element(grid().getByText("Waits for a person")).toBeVisible();
    await expect.element(page.getByText("leat get fleetsources")).toBeVisible();
    await expectAccessible();
    await grid().getByText("shop/fleet", { exact: true }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/fleet-sources/shop/fleet");
  });

  test("a hub without one says what they are for", async () => {
    open("/fleet-sources", { objects: sources(() => []) });
    await expect.element(page.getByText("No fleet source yet")).toBeVisible();
    await expectAccessible();
  });
});

describe("a fleet source", () => {
  test("it has what waits, the latest look, and each document, problems first", async () => {
    const { router } = open("/fleet-sources/fleet");
    await expect.element(page.getByText("5 removals wait for a person to agree")).toBeVisible();
    await expect.element(grid().getByText('there is no repository "demoo"', { exact: false })).toBeVisible();
    await expect.element(page.getByText("the whole hub")).toBeVisible();
    await expect.element(page.getByText("leat fleetsource status fleet")).toBeVisible();
    await expectAccessible();
    await page.getByRole("link", { name: "Next page" }).click();
    await expect.poll(() => router.state.location.search).toEqual({ after: "2" });
    await expect.element(grid().getByText("z.yaml:1").first()).toBeInTheDocument();
  });

  test("a confirmation shows what goes, and needs the name where more than three objects do", async () => {
    const asked: [string, string][] = [];
    open("/fleet-sources/fleet", {
      fleet: document_(),
      sources: {
        listFleetSourceDocuments: (request) => documentsOf(request),
        confirmFleetSource: ({ name, digest }) => {
          asked.push([name, digest]);
          return {};
        },
      },
    });
    await expect.element(button("Confirm removals")).not.toHaveAttribute("aria-disabled");
    await button("Confirm removals").click();
    const dialog = page.getByRole("dialog");
    await expect.element(dialog.getByText("service/gone-4@berlin")).toBeInTheDocument();
    await expect.element(dialog.getByText("leat fleetsource confirm fleet 5f2b0c8d9a7e6f10")).toBeVisible();
    await expectAccessible();
    const remove = dialog.getByRole("button", { name: "Remove 5 objects" });
    await expect.element(remove).toHaveAttribute("aria-disabled", "true");
    await dialog.getByRole("textbox", { name: "Type fleet to go on" }).fill("fleet");
    await remove.click();
    await expect.element(page.getByText("Confirmed.", { exact: false })).toBeVisible();
    expect(asked).toEqual([["fleet", "5f2b0c8d9a7e6f10"]]);
  });

  test("where a look comes in between, nothing is offered", async () => {
    let digest = 0;
    open("/fleet-sources/fleet", {
      fleet: {
        get: () => {
          digest += 1;
          return { document: sourceRow("fleet", { held: 5, heldDigest: String(digest) }).document } as never;
        },
      },
    });
    await expect.element(button("Confirm removals")).not.toHaveAttribute("aria-disabled");
    await button("Confirm removals").click();
    await expect.element(page.getByText("Other removals are held by now", { exact: false })).toBeVisible();
    expect(page.getByRole("dialog").elements()).toHaveLength(0);
  });

  test("few objects go without a typed name", async () => {
    open("/fleet-sources/fleet", {
      objects: sources(() => [heldRow(2)]),
      fleet: document_(heldRow(2)),
      sources: { listFleetSourceDocuments: (request) => documentsOf(request, 2) },
    });
    await expect.element(button("Confirm removals")).not.toHaveAttribute("aria-disabled");
    await button("Confirm removals").click();
    await expect
      .element(page.getByRole("dialog").getByRole("button", { name: "Remove 2 objects" }))
      .not.toHaveAttribute("aria-disabled");
  });

  test("a sync lasts until a look has obeyed it", async () => {
    open("/fleet-sources/edge/kiosks", {
      sources: {
        listFleetSourceDocuments: (request) => documentsOf(request),
        syncFleetSource: () => ({ request: 3n }),
      },
    });
    await expect.element(button("Sync now")).not.toHaveAttribute("aria-disabled");
    await button("Sync now").click();
    await expect.element(page.getByText("Sync requested.", { exact: false })).toBeVisible();
    await expect.element(button("Looking now …")).toHaveAttribute("aria-busy", "true");
  });

  test("a dry run says what it would change, and a suspended one cannot be synced", async () => {
    open("/fleet-sources/try");
    await expect.element(page.getByText("It would make 7 changes")).toBeVisible();
    await expect.element(grid().getByText("Would be changed")).toBeVisible();
    await expectAccessible();
  });

  test("a suspended one says why it cannot be synced", async () => {
    open("/fleet-sources/old");
    await expect.element(button("Sync now")).toHaveAttribute("title", "It is suspended, so it looks at nothing.");
    await expectAccessible();
  });

  test("what the person may not do is there, and says why", async () => {
    open("/fleet-sources/fleet", { objects: sources(() => [{ ...heldRow(), can: [] }]) });
    await expect
      .element(button("Confirm removals"))
      .toHaveAttribute("title", expect.stringContaining("No binding lets you confirm fleetsources here."));
    // By the browser, which returns when the page has drawn what a click opens.
    await button("Confirm removals").click({ force: true });
    expect(page.getByRole("dialog").elements()).toHaveLength(0);
  });
});
