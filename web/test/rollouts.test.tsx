// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import type { FleetRow } from "../src/gen/leat/fleet/v1/query_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub, refusal } from "./hub.ts";
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

describe("a rollout", () => {
  test("it has what holds it, its waves, what it brings, and the failed member first", async () => {
    const { router } = open("/rollouts/shops");
    await expect.element(heading("shops")).toBeVisible();
    await expect.element(page.getByText('Wave "canary" waits for 1 more to approve').first()).toBeVisible();
    await expect
      .element(page.getByText("Before the next wave: 30 min in which all are healthy and 1 approval"))
      .toBeVisible();
    await expect.element(page.getByText("leat rollout status shops")).toBeVisible();
    await expect.element(page.getByRole("link", { name: "88888888" })).toBeVisible();
    await expect.element(page.getByText("From is what rollout 6 brought", { exact: false })).toBeVisible();
    await expect.poll(() => document.querySelector("[data-index='0']")?.textContent).toContain("web-40@boston");
    expect(document.querySelector("[aria-current=step]")?.textContent).toContain("canary");
    await expectAccessible();
    await page.getByRole("link", { name: "web-40@boston" }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/services/web-40@boston");
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

  test("an earlier one is in the address, and leads to the latest", async () => {
    const { router } = open("/rollouts/shops?number=6");
    await expect.element(page.getByText("This is an earlier rollout. The latest is 7.")).toBeVisible();
    await expect.element(page.getByText("leat rollout status shops --number 6")).toBeVisible();
    await expectAccessible();
    await page.getByRole("link", { name: "To the latest rollout" }).click();
    await expect.poll(() => router.state.location.search).toEqual({});
  });

  test("a policy without a rollout says when one begins", async () => {
    open("/rollouts/empty");
    await expect.element(page.getByText("The first one begins when", { exact: false })).toBeVisible();
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
