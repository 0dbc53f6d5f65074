// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { type FleetRow, FleetRowSchema } from "../src/gen/leat/fleet/v1/query_pb";
import { ms } from "../src/hub/time.ts";
import { type Answers, refusal, serviceDocument, serviceRow } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const services = (n: number, change: (row: FleetRow, index: number) => Partial<FleetRow> = () => ({})) =>
  Array.from({ length: n }, (_, index) => {
    const row = serviceRow(index);
    return create(FleetRowSchema, { ...row, ...change(row, index) } as FleetRow);
  });

/** Opens the list of some services, of which the hub does what it is asked. No time passes between the calls. */
function openList(change: Partial<Answers> = {}, rows: () => FleetRow[] = () => services(40), path = "/services") {
  const synced: string[] = [];
  const applied: [string, boolean, string | null][] = [];
  const { router, answers } = open(path, {
    objects: (kind) => (kind === "Service" ? rows() : undefined),
    ...change,
    fleet: {
      syncService: ({ name }) => {
        synced.push(name);
        return {};
      },
      get: ({ name }) => {
        const document = serviceDocument();
        if (document.object.case === "service" && document.object.value.metadata)
          document.object.value.metadata.name = name;
        return { document };
      },
      apply: ({ documents }, { requestHeader }) => {
        for (const { object } of documents) {
          if (object.case !== "service") continue;
          const { metadata, spec } = object.value;
          applied.push([metadata?.name ?? "", spec?.paused ?? false, requestHeader.get("Leat-Reason")]);
        }
        return {};
      },
      ...change.fleet,
    },
  });
  return { router, answers, synced, applied };
}

const bar = () => page.getByRole("region", { name: "What to do with the selection" });
const box = (name: string) => page.getByRole("checkbox", { name: `Select ${name}`, exact: true });
const press = (name: string) => bar().getByRole("button", { name, exact: true }).click();
const dialog = () => page.getByRole("dialog");
const confirm = (name: string) => dialog().getByRole("button", { name, exact: true }).click();

describe("many services at once", () => {
  test("rows are chosen by boxes and by the keyboard, and synced", async () => {
    const { synced } = openList();
    await box("web-0@berlin").click();
    await expect.element(bar().getByText("1 service selected")).toBeVisible();
    const row = page.getByRole("row", { name: /cart-1@boston/ });
    (row.element() as HTMLElement).focus();
    await userEvent.keyboard(" ");
    await expect.element(row).toHaveAttribute("aria-selected", "true");
    await userEvent.keyboard("{ArrowDown}{ArrowDown}{Shift>} {/Shift}");
    await expect.element(bar().getByText("4 services selected")).toBeVisible();
    await expectAccessible();
    await press("Sync");
    await expect.element(dialog().getByText("Sync 4 services")).toBeVisible();
    await expect.element(dialog().getByText("it has to stay open until it is done", { exact: false })).toBeVisible();
    await expectAccessible();
    await confirm("Sync");
    await expect.element(page.getByText("4 services done.")).toBeVisible();
    expect(synced.sort()).toEqual(["cart-1@boston", "checkout-2@lisbon", "search-3@osaka", "web-0@berlin"]);
    await expect.element(bar()).not.toBeInTheDocument();
  });

  test("all that match are counted before; what may not be done is said apart; the reason is given", async () => {
    const rows = services(1234, (_, index) => ({
      ...(index % 100 === 7 && { can: ["sync"] }),
      ...(index % 100 === 9 && { paused: true }),
    }));
    const { applied } = openList({}, () => rows);
    await page.getByRole("checkbox", { name: "Select all 1,234 that match" }).click();
    await expect.element(bar().getByText("1,234 services selected")).toBeVisible();
    // One of them is left out.
    await box("web-0@berlin").click();
    await expect.element(bar().getByText("1,233 services selected")).toBeVisible();
    await press("Pause");
    await expect.element(dialog().getByRole("heading", { name: "Pause 1,207 services" })).toBeVisible();
    await expect.element(dialog().getByText("13 others are left out", { exact: false })).toBeVisible();
    await expect.element(dialog().getByText("13 others are paused already.")).toBeVisible();
    await dialog().getByRole("textbox", { name: "Reason (optional)" }).fill("OPS-7");
    await expectAccessible();
    await dialog().getByRole("button", { name: "Close" }).click();
    expect(applied).toEqual([]);
  });

  test("the command names the filter of the page, and its cluster", async () => {
    openList({}, () => services(40), "/clusters/berlin?filter=web");
    await page.getByRole("checkbox", { name: "Select all 40 that match" }).click();
    await press("Sync");
    await expect
      .element(
        dialog().getByText("leat get services --filter 'cluster=berlin web' -o json | jq", { exact: false }).first(),
      )
      .toBeVisible();
  });

  test("a pause of many ends at one time", async () => {
    const ends: (number | undefined)[] = [];
    openList({
      fleet: {
        apply: ({ documents }) => {
          for (const { object } of documents)
            if (object.case === "service") ends.push(ms(object.value.spec?.pausedUntil));
          return {};
        },
      },
    });
    await box("web-0@berlin").click();
    await box("cart-1@boston").click();
    await press("Pause");
    await dialog().getByRole("combobox", { name: "How long" }).selectOptions("A day");
    await expect.element(dialog().getByText("leat pause --for 24h", { exact: false }).first()).toBeVisible();
    await expectAccessible();
    await confirm("Pause");
    await expect.element(page.getByText("2 services done.")).toBeVisible();
    expect(ends).toHaveLength(2);
    expect(new Set(ends).size).toBe(1);
    expect(ends[0]).toBeGreaterThan(Date.now() + 23 * 3_600_000);
  });

  test("a pause carries its reason, and a resume takes the paused alone", async () => {
    const rows = services(6, (_, index) => ({ paused: index > 3 }));
    const { applied } = openList({}, () => rows);
    await page.getByRole("checkbox", { name: "Select all 6 that match" }).click();
    await press("Pause");
    await dialog().getByRole("textbox", { name: "Reason (optional)" }).fill("OPS-7");
    await confirm("Pause");
    await expect.poll(() => applied.length).toBe(4);
    expect(applied.every(([, isPaused, reason]) => isPaused && reason === "OPS-7")).toBe(true);
    // The selection goes with the last answer. Another one before that would go with it.
    await expect.element(bar()).not.toBeInTheDocument();
    await page.getByRole("checkbox", { name: "Select all 6 that match" }).click();
    await press("Resume");
    await expect.element(dialog().getByRole("heading", { name: "Resume 2 services" })).toBeVisible();
  });

  test("a count that differs at the hub asks again, and does nothing before", async () => {
    let rows = services(40);
    const { synced } = openList({}, () => rows);
    await page.getByRole("checkbox", { name: "Select all 40 that match" }).click();
    rows = services(43);
    await press("Sync");
    await expect.element(dialog().getByText("it was 40 services, and now it is 43", { exact: false })).toBeVisible();
    rows = services(41);
    await confirm("Sync");
    await expect.element(dialog().getByText("it was 43 services, and now it is 41", { exact: false })).toBeVisible();
    expect(synced).toEqual([]);
    await confirm("Sync");
    await expect.element(page.getByText("41 services done.")).toBeVisible();
    expect(synced).toHaveLength(41);
  });

  test("what failed stays selected with its reason, which is text", async () => {
    const evil = '<img src=x onerror="document.title=1">';
    openList(
      {
        fleet: {
          syncService: ({ name }) => {
            if (name.startsWith("cart")) throw refusal(Code.PermissionDenied, "ACCESS_DENIED", evil);
            return {};
          },
        },
      },
      () => services(7),
    );
    await page.getByRole("checkbox", { name: "Select all 7 that match" }).click();
    await press("Sync");
    await confirm("Sync");
    await expect.element(bar().getByText("6 done, 1 failed, 0 left")).toBeVisible();
    await expect.element(bar().getByRole("link", { name: "cart-1@boston" })).toBeVisible();
    await expect.element(bar().getByText("ACCESS_DENIED")).toBeVisible();
    expect(document.querySelector("#app img")).toBeNull();
    await expectAccessible();
    await expect.element(box("cart-1@boston")).toBeChecked();
    await press("Close");
    await expect.element(bar().getByText("1 service selected")).toBeVisible();
  });

  test("who may do none of it is told so, and asked nothing", async () => {
    openList({}, () => services(3, () => ({ can: [] })));
    await page.getByRole("checkbox", { name: "Select all 3 that match" }).click();
    await press("Pause");
    await expect.element(bar().getByText("no binding lets you pause them", { exact: false })).toBeVisible();
    expect(dialog().elements()).toHaveLength(0);
    await expectAccessible();
  });

  test("leaving the page says what stops, and a stop keeps the rest selected", async () => {
    const held = Promise.withResolvers<void>();
    const { router } = openList({
      fleet: {
        syncService: async () => {
          await held.promise;
          return {};
        },
      },
    });
    await page.getByRole("checkbox", { name: "Select all 40 that match" }).click();
    await press("Sync");
    await confirm("Sync");
    await expect.element(bar().getByText("0 done, 0 failed, 40 left")).toBeVisible();
    await page.getByRole("link", { name: "Repositories" }).click();
    await expect.element(dialog().getByText("40 services would be left as they are.", { exact: false })).toBeVisible();
    await expectAccessible();
    await confirm("Stay");
    expect(router.state.location.pathname).toBe("/services");
    await press("Stop");
    held.resolve();
    await expect.element(bar().getByRole("button", { name: "Close", exact: true })).toBeVisible();
    await press("Close");
    await expect.element(bar().getByText(/^3\d services selected$/)).toBeVisible();
  });

  test("another filter is another selection", async () => {
    const { router } = openList();
    await box("web-0@berlin").click();
    await expect.element(bar()).toBeVisible();
    await router.navigate({ to: "/services", search: { filter: "name=cart*" } });
    await expect.element(bar()).not.toBeInTheDocument();
  });

  test("clusters stand for their services", async () => {
    const { synced, answers } = openList({ sizes: { Cluster: 3 } }, () => services(5), "/clusters");
    await box("berlin").click();
    await box("lisbon").click();
    await expect.element(bar().getByText("2 clusters selected")).toBeVisible();
    await press("Sync");
    await expect.element(dialog().getByText("They are in 2 clusters.")).toBeVisible();
    expect(answers.queries.filter(({ kind }) => kind === "Service").map(({ cluster }) => cluster)).toEqual([
      "berlin",
      "lisbon",
    ]);
    await confirm("Sync");
    await expect.poll(() => synced.length).toBe(10);
  });
});
