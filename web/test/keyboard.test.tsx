// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { type Locator, page, userEvent } from "vitest/browser";
import type { Document } from "../src/gen/leat/fleet/v1/document_pb";
import { type ReviewAccessRequest, ReviewAccessResponseSchema } from "../src/gen/leat/fleet/v1/people_pb";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { clusterApi, event } from "./cluster.ts";
import { serviceDocument } from "./hub.ts";
import { open } from "./open.tsx";

// Five flows of people who have no pointer. Each begins where a page begins, and ends with what a screen reader reads.

const press = (keys: string) => userEvent.keyboard(keys);

const nameOf = (element: Element | null) =>
  `${element?.tagName} ${element?.getAttribute("aria-label") ?? element?.textContent?.slice(0, 40)}`;

/** Presses Tab until the focus is there. A page in which that takes longer is no page for the keyboard. */
async function tabTo(target: Locator, most = 40): Promise<void> {
  await expect.element(target).toBeVisible();
  const passed: string[] = [];
  for (let count = 0; count < most; count++) {
    if (document.activeElement === target.element()) return;
    passed.push(nameOf(document.activeElement));
    await press("{Tab}");
  }
  expect(passed, "what Tab reached").toContain(nameOf(target.element()));
}

const main = page.getByRole("main");
const button = (name: string) => page.getByRole("button", { name, exact: true });

const agent = {
  getInventory: () => ({
    objects: [
      {
        ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "cart" },
        health: Health.HEALTHY,
      },
    ],
  }),
};
const pods = [
  { name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9" },
  { name: "cart-7d4b9-bbbbb", owner: "cart-7d4b9", status: "CrashLoopBackOff", ready: "0/1", restarts: "12 (3m ago)" },
];

describe("by the keyboard alone", () => {
  test("somebody finds what is broken, and why", async () => {
    const { router } = open(
      "/",
      clusterApi({
        pods,
        deployments: ["cart"],
        events: [event("cart-7d4b9-bbbbb", "BackOff", "Back-off restarting failed container web")],
        logs: { "cart-7d4b9-bbbbb web previous": "panic: no quota\n" },
      }),
    );
    await expect.element(page.getByRole("heading", { level: 1, name: "6 problems need attention" })).toBeVisible();
    await press("{Tab}");
    await expect.element(button("Skip to the content")).toHaveFocus();
    await press("{Enter}");
    await expect.element(main).toHaveFocus();
    await tabTo(page.getByRole("link", { name: "cart@berlin", exact: true }));
    await press("{Enter}");
    await expect.poll(() => router.state.location.pathname).toBe("/services/cart@berlin");
    await expect.element(main).toHaveFocus();
    await expect.element(page.getByText("panic: no quota")).toBeVisible();
    await tabTo(page.getByRole("region", { name: "The last lines of its log" }));
    expect(page.getByRole("region", { name: "The last lines of its log" }).element()).toMatchAriaInlineSnapshot(
      `- region "The last lines of its log": "panic: no quota"`,
    );
  });

  test("somebody pauses a service, and says why", async () => {
    let isPaused = false;
    const changed = Promise.withResolvers<void>();
    const current = (): Document => {
      const document = serviceDocument();
      if (document.object.case === "service" && document.object.value.spec)
        document.object.value.spec.paused = isPaused;
      return document;
    };
    const reasons: string[] = [];
    open("/services/cart@berlin?why=false", {
      fleet: {
        get: () => ({ document: current() }),
        async *watch() {
          yield { document: current() };
          await changed.promise;
          yield { document: current() };
          await new Promise(() => {});
        },
        apply: (_, { requestHeader }) => {
          reasons.push(decodeURIComponent(requestHeader.get("Leat-Reason") ?? ""));
          isPaused = true;
          changed.resolve();
          return {};
        },
      },
    });
    await expect.element(button("Pause")).not.toHaveAttribute("aria-disabled");
    await tabTo(button("Pause"));
    await press("{Enter}");
    const dialog = page.getByRole("dialog", { name: "Pause cart@berlin" });
    await tabTo(dialog.getByRole("textbox"));
    await press("OPS-7: checkout fails");
    await tabTo(dialog.getByRole("button", { name: "Pause", exact: true }));
    await press("{Enter}");
    await expect.element(dialog).not.toBeInTheDocument();
    expect(reasons).toEqual(["OPS-7: checkout fails"]);
    // The button that opened the dialog has become the one that takes the pause back.
    await expect.element(button("Resume")).toHaveFocus();
    await expect.element(page.getByRole("status").filter({ hasText: "Paused." })).toBeVisible();
    expect(page.getByRole("group", { name: "Actions" }).element()).toMatchAriaInlineSnapshot(`
      - group "Actions":
        - button "Sync now"
        - button "Resume"
    `);
  });

  test("somebody looks a commit up", async () => {
    const { router, answers } = open("/", { sizes: { Service: 10_000 } });
    await expect.element(page.getByRole("heading", { level: 1, name: "6 problems need attention" })).toBeVisible();
    await press("{Control>}k{/Control}");
    await expect.element(page.getByRole("combobox", { name: "Go to" })).toHaveFocus();
    await press("4f2c1e0");
    await expect.element(page.getByRole("option", { name: "4f2c1e0a of demo" })).toBeVisible();
    expect(answers.queries.map(({ filter }) => filter)).toContain('commit="4f2c1e0"');
    expect(page.getByRole("dialog").element()).toMatchAriaInlineSnapshot(`
      - dialog "Go to":
        - combobox "Go to" [expanded]: 4f2c1e0
        - listbox "Go to":
          - group "Commit":
            - option "4f2c1e0a of demo" [selected]
          - group "Services":
            - option "web-0@berlin Healthy"
            - option "cart-1@boston Healthy"
            - option "checkout-2@lisbon Healthy"
            - option "search-3@osaka Failed"
            - option "payments-4@quito Healthy"
            - option "ingress-5@shop/nairobi Progressing"
            - option "cert-manager-6@edge/frankfurt-airport-terminal-2 Healthy"
            - option "web-7@berlin Healthy"
        - status: ↑ ↓ to choose, Enter to open, Esc to close
    `);
    await press("{Enter}");
    await expect.poll(() => router.state.location.pathname).toMatch(/^\/commits\/demo@4f2c1e0a/);
    await expect.element(page.getByRole("heading", { level: 1, name: "4f2c1e0a of demo" })).toBeVisible();
    await expect.element(main).toHaveFocus();
    await tabTo(page.getByRole("link", { name: "100 failed or degraded" }));
    expect(page.getByRole("list").filter({ hasText: "failed or degraded" }).element()).toMatchAriaInlineSnapshot(`
      - list:
        - listitem:
          - link "8,900 healthy, with it or not":
            - /url: /ui/commits/demo@4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e?phase=HEALTHY
            - strong: 8,900
            - text: healthy, with it or not
        - listitem:
          - link "100 failed or degraded":
            - /url: /ui/commits/demo@4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e?phase=FAILED%2CDEGRADED
            - strong: "100"
            - text: failed or degraded
        - listitem:
          - link "28 do not have it yet":
            - /url: /ui/commits/demo@4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e?filter=applied%21%3D%224f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e%22&order=-since
            - strong: "28"
            - text: do not have it yet
        - listitem:
          - link "12 are to have another commit by now":
            - /url: /ui/commits/demo@4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e?filter=desired%21%3D%224f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e%22
            - strong: "12"
            - text: are to have another commit by now
    `);
  });

  test("somebody reads and searches the logs of a pod", async () => {
    const at = (second: number) => `2026-11-28T11:17:0${second}.5Z`;
    const logs = {
      "cart-7d4b9-aaaaa web": `${at(1)} ready\n`,
      "cart-7d4b9-bbbbb web": `${at(2)} reads its quota\n${at(3)} panic: no quota\n${at(4)} ends\n`,
    };
    const { router } = open("/services/cart@berlin?why=false", {
      agent,
      ...clusterApi({ pods, deployments: ["cart"], logs }),
    });
    await tabTo(page.getByRole("tab", { name: "Overview" }));
    const logsTab = page.getByRole("tab", { name: "Logs" });
    await expect.element(logsTab).toBeVisible();
    while (document.activeElement !== logsTab.element()) await press("{ArrowRight}");
    await expect.element(page.getByText("4 lines of 2 containers")).toBeVisible();
    await press("/");
    await expect.element(page.getByRole("textbox", { name: "Find in the logs" })).toHaveFocus();
    await press("quota");
    await expect.element(page.getByText("2 of 4 lines of 2 containers")).toBeVisible();
    await expect.element(page.getByRole("status").filter({ hasText: "2 lines match" })).toBeInTheDocument();
    await tabTo(page.getByRole("combobox", { name: "Pod" }));
    await press("cart-7d4b9-b");
    await expect
      .poll(() => router.state.location.search)
      .toEqual({
        tab: "logs",
        why: false,
        find: "quota",
        pod: "cart-7d4b9-bbbbb",
      });
    await expect.element(page.getByText("2 of 3 lines of 1 container", { exact: true })).toBeVisible();
    await tabTo(page.getByRole("row").first());
    await press("{ArrowDown}{Enter}");
    await expect.element(page.getByRole("region", { name: "The chosen line" })).toBeVisible();
    // The hour is of the reader's time zone.
    expect(page.getByRole("grid").element()).toMatchAriaInlineSnapshot(`
      - grid "Logs of all pods":
        - row /reads its quota/:
          - gridcell /02\\.500/
          - gridcell "cart-7d4b9-bbbbb"
          - gridcell "reads its quota"
        - row /no quota/ [selected]:
          - gridcell /03\\.500/
          - gridcell "cart-7d4b9-bbbbb"
          - gridcell "panic: no quota"
    `);
    await tabTo(page.getByRole("region", { name: "The chosen line" }).getByRole("button", { name: "Close" }));
    await press("{Enter}");
    await expect.element(page.getByRole("region", { name: "The chosen line" })).not.toBeInTheDocument();
    await expect.element(page.getByRole("row").last()).toHaveFocus();
  });

  test("somebody asks who may do what", async () => {
    const asked: ReviewAccessRequest[] = [];
    const { router } = open("/", {
      fleet: {
        reviewAccess(request) {
          asked.push(request);
          return create(ReviewAccessResponseSchema, {
            allowed: true,
            reason: "the binding shop-team allows it",
            user: "leat:user:ada",
          });
        },
        listAccessHolders: () => ({ holders: [{ person: "ada", subject: "user:ada" }] }),
      },
    });
    await expect.element(page.getByRole("heading", { level: 1, name: "6 problems need attention" })).toBeVisible();
    await press(":");
    await expect.element(page.getByRole("combobox", { name: "Go to" })).toHaveFocus();
    await press("acc");
    await expect.element(page.getByRole("option", { name: "Access" })).toHaveAttribute("aria-selected", "true");
    await press("{Enter}");
    await expect.poll(() => router.state.location.pathname).toBe("/access");
    await expect.element(main).toHaveFocus();
    await tabTo(page.getByRole("textbox", { name: "Cluster" }));
    await press("berlin{Tab}delete{Tab}pods{Enter}");
    await expect.element(page.getByRole("status").filter({ hasText: "the binding shop-team allows it" })).toBeVisible();
    // The focus stays in the question, so that the next one is asked from where the last one was.
    await expect.element(page.getByRole("textbox", { name: "Resource" })).toHaveFocus();
    await expect.poll(() => asked.map(({ attributes }) => attributes?.verb)).toContain("delete");
    await expect.element(page.getByRole("cell", { name: "user:ada" })).toBeVisible();
    expect(main.element()).toMatchAriaInlineSnapshot(`
      - main:
        - heading "Access" [level=1]
        - text: Same as
        - code: $ " / "leat access berlin delete pods
        - button "Copy leat access berlin delete pods"
        - heading "Who may do what" [level=2]
        - paragraph: "Ask for a cluster, or for the hub itself without one. A verb and a resource ask for one thing, in kubectl's words: pods/log, deployments.apps, services.leat.dev, /metrics."
        - text: Cluster
        - textbox "Cluster": berlin
        - text: Verb
        - textbox "Verb": delete
        - text: Resource
        - textbox "Resource": pods
        - text: Namespace
        - textbox "Namespace"
        - text: Person (you if empty)
        - textbox "Person (you if empty)"
        - button "Ask"
        - button "Clear"
        - heading "Answer" [level=2]
        - status:
          - text: Allowed
          - paragraph: the binding shop-team allows it
        - term: User in the cluster
        - definition:
          - code: leat:user:ada
        - heading "Who else may" [level=2]
        - code: $ " / "leat access who-can delete pods --cluster berlin
        - button "Copy leat access who-can delete pods --cluster berlin"
        - table:
          - rowgroup:
            - row "Person By Binding Role Until":
              - columnheader "Person"
              - columnheader "By"
              - columnheader "Binding"
              - columnheader "Role"
              - columnheader "Until"
          - rowgroup:
            - row "ada user:ada leat:admins":
              - cell "ada"
              - cell "user:ada"
              - cell "leat:admins"
              - cell
              - cell
    `);
  });
});
