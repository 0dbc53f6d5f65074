// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import type { FleetRow } from "../src/gen/leat/fleet/v1/query_pb";
import { ContentHoldSchema } from "../src/gen/leat/fleet/v1/resources_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub, refusal, serviceDocument } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";
import { policyRow, policyRows, rollout, rolloutAnswer, rolloutAnswers } from "./rollouts.ts";

const policies = (rows: () => FleetRow[]) => (kind: string) => (kind === "RolloutPolicy" ? rows() : undefined);

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub({ objects: policies(policyRows), rollouts: rolloutAnswers, ...change });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const heading = (name: string | RegExp) => page.getByRole("heading", { level: 1, name });
const button = (name: string) => page.getByRole("button", { name, exact: true });
const grid = () => page.getByRole("grid");

describe("rollouts", () => {
  test("those that wait for a person come first, with what holds them", async () => {
    const { router } = open("/rollouts");
    await expect.element(grid().getByText("payments", { exact: true })).toBeVisible();
    const names = [...document.querySelectorAll("[role=row] a")].map((link) => link.textContent);
    expect(names).toEqual(["shops", "payments", "edge/kiosks", "billing", "archive", "old", "empty"]);
    await expect.element(grid().getByText("3 of 13 members failed", { exact: false })).toBeVisible();
    await expect.element(grid().getByText("12 of 412").first()).toBeVisible();
    await expect.element(page.getByText("leat get rolloutpolicies")).toBeVisible();
    await expectAccessible();
    document.querySelector<HTMLElement>("[data-index]")?.focus();
    await userEvent.keyboard("{ArrowDown}{ArrowUp}{Enter}");
    await expect.poll(() => router.state.location.pathname).toBe("/rollouts/shops");
  });

  test("the address holds the filter, and one that fits nothing can be cleared", async () => {
    const { router, answers } = open("/rollouts?filter=nothing&order=x");
    await expect.element(page.getByText("Nothing matches this filter")).toBeVisible();
    expect(router.state.matches.at(-1)?.search).toEqual({ filter: "nothing" });
    await expectAccessible();
    await page.getByRole("main").getByRole("button", { name: "Clear the filter" }).last().click();
    await expect.element(grid().getByText("payments", { exact: true })).toBeVisible();
    expect(answers.queries.every((query) => query.size <= 500)).toBe(true);
  });

  test("a hub without policies says what they are for", async () => {
    open("/rollouts", { objects: policies(() => []) });
    await expect.element(page.getByText("No rollout policy yet")).toBeVisible();
    await expectAccessible();
  });

  test("more policies than the page holds are said", async () => {
    const many = Array.from({ length: 700 }, (_, index) =>
      policyRow(`p-${index}`, rollout({ number: BigInt(index + 1) })),
    );
    open("/rollouts", { objects: policies(() => many) });
    await expect.element(page.getByText("The first 500 of 700 by name are shown.", { exact: false })).toBeVisible();
    await expectAccessible();
  });

  test("what the hub can no longer confirm is not painted as new", async () => {
    open("/rollouts", {
      before: (call) => {
        if (call === "watchQuery") throw new ConnectError("", Code.Unavailable);
      },
    });
    await expect.element(grid().getByText("Was completed")).toBeVisible();
    await expectAccessible();
  });
});

test("a service that a policy holds leads to its rollout, and a derived one to its global service", async () => {
  const own = serviceDocument();
  const status = own.object.case === "service" ? own.object.value.status : undefined;
  if (status) {
    status.hold = create(ContentHoldSchema, { policy: "shops" });
    status.globalService = "ingress";
  }
  const { router } = open("/services/cart@berlin", {
    fleet: {
      get: () => ({ document: own }),
      watch: async function* () {
        yield { document: own };
        await new Promise(() => {});
      },
    },
  });
  await expect.element(page.getByRole("link", { name: "ingress" })).toBeVisible();
  await page.getByRole("link", { name: "Held by shops until its rollout admits the service" }).click();
  await expect.poll(() => router.state.location.pathname).toBe("/rollouts/shops");
});

describe("a rollout", () => {
  test("it has what holds it, its waves, what it brings, and the failed member first", async () => {
    const { router } = open("/rollouts/shops");
    await expect.element(heading("shops")).toBeVisible();
    await expect.element(page.getByText('Wave "canary" waits for 1 more to approve').first()).toBeVisible();
    await expect
      .element(page.getByText("Before the next wave: 30 min in which all are healthy and 1 approval"))
      .toBeVisible();
    await expect.element(page.getByText("leat rollout status shops")).toBeVisible();
    await expect.element(page.getByText("A cluster that falls silent")).toBeVisible();
    await expect.element(page.getByText("It counts as failed")).toBeVisible();
    await expect.element(page.getByRole("link", { name: "88888888" })).toBeVisible();
    await expect.element(page.getByText("From is what rollout 6 brought", { exact: false })).toBeVisible();
    await expect.poll(() => document.querySelector("[data-index='0']")?.textContent).toContain("web-40@boston");
    expect(document.querySelector("[aria-current=step]")?.textContent).toContain("canary");
    await expectAccessible();
    await page.getByRole("link", { name: "web-40@boston" }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/services/web-40@boston");
  });

  test("it goes as the hub says, until its policy is deleted", async () => {
    let current = rollout();
    let rows = [policyRow("shops", current)];
    const { answers } = open("/rollouts/shops", {
      objects: policies(() => rows),
      rollouts: { ...rolloutAnswers, getRollout: () => rolloutAnswer(current) },
    });
    await expect.element(page.getByText("12 of 412", { exact: false }).first()).toBeVisible();
    current = rollout({ arrived: 200, failed: 0, wave: "rest", waitsOn: "", waitsFor: "" });
    rows = [policyRow("shops", current)];
    answers.changeLists();
    await expect.element(page.getByText("200 of 412")).toBeVisible();
    await expect.element(page.getByText("Nothing holds it.", { exact: false })).toBeVisible();
    rows = [];
    answers.changeLists();
    await expect.element(page.getByText("There is no such object")).toBeVisible();
  });

  test("further pages are read until the failed members are found, and no more", async () => {
    const asked: string[] = [];
    open("/rollouts/shops", {
      rollouts: {
        ...rolloutAnswers,
        getRollout: ({ page: of, number }) => {
          asked.push(`${number} ${of?.token}`);
          const answer = rolloutAnswer();
          const members = answer.members.filter((_, index) => (of?.token === "2" ? index === 40 : index < 40));
          return { rollout: answer.rollout, members, nextPageToken: String(asked.length) };
        },
      },
    });
    await expect.element(grid().getByText("web-40@boston")).toBeVisible();
    expect(asked).toEqual(["0 ", "7 1", "7 2"]);
    await expect.element(page.getByText("has all.", { exact: false })).toBeVisible();
  });

  test("an approval names the wave that the person has seen, and is followed by the hub's answer", async () => {
    const asked: [string, string, string | null][] = [];
    let isApproved = false;
    open("/rollouts/shops", {
      rollouts: {
        ...rolloutAnswers,
        getRollout: () => rolloutAnswer(isApproved ? rollout({ waitsFor: "", waitsOn: "", wave: "rest" }) : rollout()),
        approveRollout: ({ name, wave }, { requestHeader }) => {
          isApproved = true;
          asked.push([name, wave, requestHeader.get("Leat-Reason")]);
          return {};
        },
      },
    });
    await expect.element(button("Approve")).not.toHaveAttribute("aria-disabled");
    await button("Approve").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Reason (optional)" }).fill("OPS-7");
    await expect.element(dialog.getByText("leat rollout approve shops --wave canary --reason OPS-7")).toBeVisible();
    await expectAccessible();
    await dialog.getByRole("button", { name: "Approve" }).click();
    await expect.element(page.getByText("Approved.")).toBeVisible();
    expect(asked).toEqual([["shops", "canary", "OPS-7"]]);
    await expect.element(page.getByText("Nothing holds it.", { exact: false })).toBeVisible();
  });

  test("an abort says what stays, and is refused where another rollout has begun", async () => {
    let verbs: string[] = [];
    let latest = rollout();
    open("/rollouts/shops", {
      rollouts: {
        ...rolloutAnswers,
        getRollout: () => rolloutAnswer(latest),
        controlRollout: ({ verb }) => {
          verbs = [...verbs, verb];
          return {};
        },
      },
    });
    await expect.element(button("Abort")).not.toHaveAttribute("aria-disabled");
    await button("Abort").click();
    const dialog = page.getByRole("dialog");
    await expect
      .element(dialog.getByText("12 members keep the change, and 400 stay without it", { exact: false }))
      .toBeVisible();
    latest = rollout({ number: 8n });
    await dialog.getByRole("button", { name: "Abort" }).click();
    await expect.element(page.getByText("Rollout 8 has begun in the meantime", { exact: false })).toBeVisible();
    expect(verbs).toEqual([]);
    await expectAccessible();
    latest = rollout();
    await dialog.getByRole("button", { name: "Abort" }).click();
    await expect.element(page.getByText("Aborted.")).toBeVisible();
    expect(verbs).toEqual(["abort"]);
  });

  test("what the person may not do is there, and says why", async () => {
    open("/rollouts/shops", {
      objects: policies(() => policyRows().map((row) => ({ ...row, can: ["pause"] }))),
      fleet: { reviewAccess: () => ({ reason: "the binding operators gives the role operator" }) },
    });
    await expect.element(button("Pause")).not.toHaveAttribute("aria-disabled");
    await expect
      .element(button("Abort"))
      .toHaveAccessibleDescription(/No binding lets you control rolloutpolicies here.*the role operator/);
    await expect.element(button("Approve")).toHaveAttribute("aria-disabled", "true");
    // By the browser, which returns when the page has drawn what a click opens.
    await button("Roll back").click({ force: true });
    expect(page.getByRole("dialog").elements()).toHaveLength(0);
    await expectAccessible();
  });

  test("a wave of groups is approved by their members alone, and not by an author", async () => {
    const row = () => {
      const own = policyRow("shops", rollout());
      const object = own.document?.object;
      const approval = object?.case === "rolloutPolicy" && object.value.spec?.waves[1]?.approval;
      if (approval) Object.assign(approval, { groups: ["platform"], notByAuthor: true });
      return [own];
    };
    open("/rollouts/shops", { objects: policies(row) });
    await expect
      .element(button("Approve"))
      .toHaveAttribute("title", "Wave canary is approved by members of platform alone.");
  });

  test("a halted one offers another try, and an ended one steers no more", async () => {
    const halted = rollout({ state: "halted", why: "3 of 13 members failed: pay@berlin (APPLY_REJECTED)", failed: 1 });
    open("/rollouts/shops", {
      objects: policies(() => [policyRow("shops", halted)]),
      rollouts: { ...rolloutAnswers, getRollout: () => rolloutAnswer(halted) },
    });
    await expect.element(button("Try again")).toBeVisible();
    await expect.element(page.getByText("3 of 13 members failed", { exact: false }).first()).toBeVisible();
    expect(button("Pause").elements()).toHaveLength(0);
    await expectAccessible();
  });

  test("an earlier one is in the address, and leads to the latest", async () => {
    const { router } = open("/rollouts/shops?number=6");
    await expect.element(page.getByText("This is an earlier rollout. The latest is 7.")).toBeVisible();
    await expect.element(page.getByText("leat rollout status shops --number 6")).toBeVisible();
    expect(button("Abort").elements()).toHaveLength(0);
    await expectAccessible();
    await page.getByRole("link", { name: "To the latest rollout" }).click();
    await expect.poll(() => router.state.location.search).toEqual({});
    await expect.element(button("Abort")).toBeVisible();
  });

  test("a policy without a rollout says when one begins", async () => {
    open("/rollouts/empty");
    await expect.element(page.getByText("The first one begins when", { exact: false })).toBeVisible();
    await expect.element(page.getByText("Members in eu-lab")).toBeVisible();
    await expect.element(page.getByText("1 member for each value of region")).toBeVisible();
    const gate = "Before the next wave: 30 min in which all are healthy and 1 approval";
    await expect.element(page.getByText(gate, { exact: false })).toBeVisible();
    await expectAccessible();
  });

  test("one that does not exist has the hub's words", async () => {
    open("/rollouts/gone", {
      fleet: {
        get: () => {
          throw refusal(Code.NotFound, "NOT_FOUND", 'there is no rolloutpolicy "gone"');
        },
      },
    });
    await expect.element(page.getByText('there is no rolloutpolicy "gone"')).toBeVisible();
    await expectAccessible();
  });
});
