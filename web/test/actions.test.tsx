// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import type { ApplyRequest } from "../src/gen/leat/fleet/v1/document_pb";
import { ms } from "../src/hub/time.ts";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub, refusal, serviceDocument } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const button = (name: string) => page.getByRole("button", { name, exact: true });
const inAlert = (words: string) => page.getByRole("alert").getByText(words, { exact: false });
/** Returns a service that is pinned to a revision, and its hold. */
function pinned(revision: bigint) {
  const document = pausedDocument(revision);
  const hold = document.object.case === "service" ? document.object.value.status?.hold : undefined;
  if (!hold) throw new Error("the service is not pinned");
  return { document, hold };
}
const pausedDocument = (revision = 0n) => {
  const document = serviceDocument();
  if (document.object.case === "service" && document.object.value.spec) {
    document.object.value.spec.paused = true;
    if (revision > 0n && document.object.value.status) {
      document.object.value.status.hold = {
        $typeName: "leat.fleet.v1.ContentHold",
        commits: [],
        policy: "",
        pinnedRevision: revision,
        pinnedBy: "ada",
        reason: "",
        specChanges: [],
        waitsFor: "",
      };
    }
  }
  return document;
};

/** Opens a service whose pause ends in so many hours, or has ended. */
function openPaused(hours: number, apply: (request: ApplyRequest) => void) {
  const document = pausedDocument();
  if (document.object.case === "service" && document.object.value.spec && document.object.value.status) {
    document.object.value.spec.pausedUntil = timestampFromMs(Date.now() + hours * 3_600_000);
    document.object.value.status.pauseEnded = hours < 0;
  }
  open("/services/cart@berlin", {
    fleet: {
      get: () => ({ document }),
      watch: async function* () {
        yield { document };
        await new Promise(() => {});
      },
      apply: (request) => {
        apply(request);
        return {};
      },
    },
  });
}

describe("a service's actions", () => {
  test("a sync is one press, and its result is said", async () => {
    const asked: string[] = [];
    open("/services/cart@berlin", {
      fleet: {
        syncService: ({ name }) => {
          asked.push(name);
          return {};
        },
      },
    });
    await expect.element(button("Sync now")).not.toHaveAttribute("aria-disabled");
    await button("Sync now").click();
    await expect.element(page.getByText("Sync requested. Its agent carries it out.")).toBeVisible();
    expect(asked).toEqual(["cart@berlin"]);
    await expectAccessible();
  });

  test("a pause says what it does, asks why, and keeps what others have edited", async () => {
    const applied: [ApplyRequest, string | null][] = [];
    open("/services/cart@berlin", {
      fleet: {
        get: () => {
          const document = serviceDocument();
          if (document.object.case === "service" && document.object.value.metadata)
            document.object.value.metadata.resourceVersion = 42n;
          return { document };
        },
        apply: (request, { requestHeader }) => {
          applied.push([request, requestHeader.get("Leat-Reason")]);
          return {};
        },
      },
    });
    await button("Pause").click();
    await expect.element(page.getByText("Its objects stay as they are.", { exact: false })).toBeVisible();
    await page.getByRole("textbox", { name: "Reason (optional)" }).fill("checkout fails, 50 %");
    await expect
      .element(page.getByText("leat pause service/cart@berlin --reason 'checkout fails, 50 %'"))
      .toBeVisible();
    await expectAccessible();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await expect.element(page.getByText("Paused.")).toBeVisible();
    await expect.element(page.getByRole("dialog")).not.toBeInTheDocument();
    const [[request, reason] = []] = applied;
    const object = request?.documents[0]?.object;
    expect(object?.case === "service" && object.value.spec?.paused).toBe(true);
    expect(object?.case === "service" && object.value.metadata?.resourceVersion).toBe(42n);
    expect(decodeURIComponent(reason ?? "")).toBe("checkout fails, 50 %");
  });

  test("a pause ends after the time that the person chooses, and the dialog keeps the reason", async () => {
    const applied: ApplyRequest[] = [];
    open("/services/cart@berlin", {
      fleet: {
        get: () => ({ document: serviceDocument() }),
        apply: (request) => {
          applied.push(request);
          return {};
        },
      },
    });
    await button("Pause").click();
    await expect.element(page.getByText("Such a pause is easily forgotten.")).toBeVisible();
    await page.getByRole("textbox", { name: "Reason (optional)" }).fill("OPS-7");
    await page.getByRole("combobox", { name: "How long" }).selectOptions("8 hours");
    await expect.element(page.getByText("leat pause service/cart@berlin --for 8h --reason OPS-7")).toBeVisible();
    await expect.element(page.getByText("Then it ends by itself", { exact: false })).toBeVisible();
    await expectAccessible();
    const before = Date.now();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await expect.element(page.getByRole("dialog")).not.toBeInTheDocument();
    const object = applied[0]?.documents[0]?.object;
    const end = object?.case === "service" ? ms(object.value.spec?.pausedUntil) : undefined;
    expect(end).toBeGreaterThanOrEqual(before + 8 * 3_600_000);
    expect(end).toBeLessThanOrEqual(Date.now() + 8 * 3_600_000);
  });

  test("a pause that has ended is no pause", async () => {
    openPaused(-3, () => {});
    await expect.element(button("Pause")).toBeVisible();
    await expect.element(page.getByText("The pause ended by itself 3 hr ago", { exact: false }).first()).toBeVisible();
    await expectAccessible();
  });

  test("a pause shows when it ends, and a resume clears that", async () => {
    const applied: ApplyRequest[] = [];
    openPaused(3, (request) => applied.push(request));
    await expect.element(page.getByText("The pause ends by itself in", { exact: false }).first()).toBeVisible();
    await button("Resume").click();
    await expect.element(page.getByText("Resumed.", { exact: false })).toBeVisible();
    const object = applied[0]?.documents[0]?.object;
    const spec = object?.case === "service" ? object.value.spec : undefined;
    expect([spec?.paused, spec?.pausedUntil]).toEqual([false, undefined]);
  });

  test("a conflict has the hub's words and its advice", async () => {
    open("/services/cart@berlin", {
      fleet: {
        get: () => ({ document: pausedDocument() }),
        watch: async function* () {
          yield { document: pausedDocument() };
          await new Promise(() => {});
        },
        apply: () => {
          throw refusal(Code.Aborted, "VERSION_CONFLICT", "service cart@berlin is at version 43, not 42");
        },
      },
    });
    await button("Resume").click();
    await expect.element(inAlert("is at version 43, not 42")).toBeVisible();
    await expect.element(inAlert("Somebody changed it in between.")).toBeVisible();
    await expectAccessible();
  });

  test("a hub that does not answer leaves open whether it was done", async () => {
    open("/services/cart@berlin", {
      fleet: {
        syncService: () => {
          throw new ConnectError("", Code.Unavailable);
        },
      },
    });
    await button("Sync now").click();
    await expect.element(inAlert("it is not known whether this was done")).toBeVisible();
  });

  test("what the person may not do is there, and says why", async () => {
    const asked: string[] = [];
    open("/services/cart@berlin", {
      can: ["sync"],
      fleet: {
        reviewAccess: ({ cluster, attributes }) => {
          asked.push(`${attributes?.verb} ${attributes?.resource} ${attributes?.namespace} ${cluster}`);
          return { reason: "the binding viewers gives the role viewer" };
        },
      },
    });
    await expect
      .element(button("Pause"))
      .toHaveAttribute("title", expect.stringContaining("No binding lets you pause services here."));
    await expect.element(button("Pause")).toHaveAccessibleDescription(/the binding viewers gives the role viewer/);
    // By the browser, which returns when the page has drawn what a click opens.
    await button("Pause").click({ force: true });
    expect(page.getByRole("dialog").elements()).toHaveLength(0);
    await expect.element(button("Sync now")).not.toHaveAttribute("aria-disabled");
    expect(asked.sort()).toEqual(["pause services shop berlin", "rollback services shop berlin"]);
    await expectAccessible();
  });

  test("a rollback shows what changes, and goes by the keyboard alone", async () => {
    const asked: [bigint, string | null][] = [];
    open("/services/cart@berlin?tab=revisions", {
      rollouts: {
        rollbackService: ({ revision }, { requestHeader }) => {
          asked.push([revision, requestHeader.get("Leat-Reason")]);
          return { revision };
        },
      },
    });
    await expect.element(button("Roll back to revision 6")).not.toHaveAttribute("aria-disabled");
    (button("Roll back to revision 6").element() as HTMLElement).focus();
    await userEvent.keyboard("{Enter}");
    const dialog = page.getByRole("dialog", { name: "Roll back to revision 6" });
    await expect.element(dialog.getByText("88888888")).toBeVisible();
    await expect.element(dialog.getByText("4f2c1e0a")).toBeVisible();
    await expectAccessible();
    // The dialog has the focus: its button to close comes first, then how long, then the reason.
    await userEvent.keyboard("{Tab}{Tab}");
    await expect.element(dialog.getByRole("combobox", { name: "How long" })).toHaveFocus();
    await userEvent.keyboard("{Tab}");
    await expect.element(dialog.getByRole("textbox")).toHaveFocus();
    await userEvent.keyboard("OPS-7{Tab}{Tab}{Tab}");
    await expect.element(dialog.getByRole("button", { name: "Roll back", exact: true })).toHaveFocus();
    await userEvent.keyboard("{Enter}");
    await expect.element(page.getByText("Pinned to revision 6.")).toBeVisible();
    expect(asked).toEqual([[6n, "OPS-7"]]);
    await expect.element(button("Roll back to revision 6")).toHaveFocus();
  });

  test("a rollback can end by itself, and a pin shows when it does", async () => {
    const until: (number | undefined)[] = [];
    const { document, hold } = pinned(6n);
    hold.pinnedUntil = timestampFromMs(Date.now() + 8 * 3_600_000);
    open("/services/cart@berlin?tab=revisions", {
      fleet: {
        get: () => ({ document }),
        watch: async function* () {
          yield { document };
          await new Promise(() => {});
        },
      },
      rollouts: {
        rollbackService: (request) => {
          until.push(request.until && timestampMs(request.until));
          return { revision: request.revision };
        },
      },
    });
    await button("Roll back to revision 6").click();
    const dialog = page.getByRole("dialog", { name: "Roll back to revision 6" });
    await expect.element(dialog.getByText("Such a pin is easily forgotten.")).toBeVisible();
    await dialog.getByRole("combobox", { name: "How long" }).selectOptions("A day");
    await expect.element(dialog.getByText("leat rollback service/cart@berlin --to 6 --for 24h")).toBeVisible();
    await expectAccessible();
    const before = Date.now();
    await dialog.getByRole("button", { name: "Roll back", exact: true }).click();
    await expect.element(page.getByText("Pinned to revision 6.")).toBeVisible();
    expect(until[0]).toBeGreaterThanOrEqual(before + 24 * 3_600_000);
    await page.getByRole("tab", { name: "Overview" }).click();
    await expect
      .element(page.getByText("Pinned to revision 6 by ada. The pin ends by itself in", { exact: false }).first())
      .toBeVisible();
  });

  test("a refused rollback stays open with the hub's words", async () => {
    open("/services/cart@berlin?tab=revisions", {
      rollouts: {
        rollbackService: () => {
          throw refusal(Code.FailedPrecondition, "REVISION_UNAVAILABLE", "commit 8888 is no longer in the mirror");
        },
      },
    });
    await button("Roll back to revision 6").click();
    await page.getByRole("dialog").getByRole("button", { name: "Roll back", exact: true }).click();
    await expect.element(page.getByText("commit 8888 is no longer in the mirror")).toBeVisible();
    await expect.element(page.getByText("Choose another revision", { exact: false })).toBeVisible();
    await expectAccessible();
  });

  test("a pin can be released", async () => {
    const released: string[] = [];
    open("/services/cart@berlin", {
      fleet: {
        get: () => ({ document: pausedDocument(6n) }),
        watch: async function* () {
          yield { document: pausedDocument(6n) };
          await new Promise(() => {});
        },
      },
      rollouts: {
        releaseService: ({ name }) => {
          released.push(name);
          return {};
        },
      },
    });
    await button("Release the pin").click();
    await page.getByRole("dialog").getByRole("button", { name: "Release the pin" }).click();
    await expect.element(page.getByText("Released. It follows its sources again.")).toBeVisible();
    expect(released).toEqual(["cart@berlin"]);
  });
});
