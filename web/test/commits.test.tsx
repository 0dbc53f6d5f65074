// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const heading = (name: string | RegExp) => page.getByRole("heading", { level: 1, name });

describe("a commit", () => {
  const commit = "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e";

  test("it says how far it has come, and where it failed", async () => {
    const { answers } = open(`/commits/demo@${commit}`);
    await expect.element(heading("4f2c1e0a of demo")).toBeVisible();
    await expect.element(page.getByText("9,972 of 10,000 services have it (99.7 %)")).toBeVisible();
    await expect.element(page.getByRole("link", { name: "100 failed or degraded" })).toBeVisible();
    await expect.element(page.getByRole("link", { name: "12 are to have another commit by now" })).toBeVisible();
    await expect.element(page.getByRole("link", { name: "APPLY_REJECTED 100" })).toBeVisible();
    await expect
      .element(page.getByText(`leat get services --filter 'repository=demo commit="${commit}"' --sort severity`))
      .toBeVisible();
    await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
    expect(answers.queries.find((query) => query.size > 1)?.order).toBe("severity");
    // The counts are of the commit, and the list is of what the person asks for.
    await expect.poll(() => answers.streams).toBe(2);
    await expectAccessible();
  });

  test("it says who made the change, in their words, and what else it brought", async () => {
    const asked: string[] = [];
    open(`/commits/demo@${commit.slice(0, 8)}`, {
      fleet: {
        listServiceCommits: ({ service, commit }) => {
          asked.push(`${service} ${commit}`);
          return {
            commits: [
              { repository: "demo", id: commit, authorName: "Grace", subject: "Scale <b>the shop</b>" },
              { repository: "demo", id: "7".repeat(40) },
            ],
            more: true,
          };
        },
      },
    });
    const changes = page.getByRole("list", { name: "Who changed it" });
    await expect.element(changes.getByText("Scale <b>the shop</b>")).toBeVisible();
    await expect.element(changes.getByText("Grace", { exact: true })).toBeVisible();
    await expect.element(changes.getByText("No message")).toBeVisible();
    await expect.element(changes.getByRole("link", { name: "77777777" })).toBeVisible();
    await expect.element(changes.getByText("and more, which the Git host has.")).toBeVisible();
    // The address has the beginning of the commit, and the hub is asked for the whole of it.
    expect(asked).toEqual([expect.stringMatching(new RegExp(`^\\S+@\\S+ ${commit}$`))]);
    await expectAccessible();
  });

  test("a mirror that does not answer leaves the rest of the page", async () => {
    open(`/commits/demo@${commit}`, {
      fleet: {
        listServiceCommits: () => {
          throw new ConnectError("the repository cache does not answer", Code.Unavailable);
        },
      },
    });
    await expect
      .element(page.getByText("Who changed it is not known: the repository cache does not answer"))
      .toBeVisible();
    await expect.element(page.getByText("9,972 of 10,000 services have it (99.7 %)")).toBeVisible();
  });

  test("what it has not reached is one press, and the counts stay those of the commit", async () => {
    const { router, answers } = open(`/commits/demo@${commit}`);
    await page.getByRole("link", { name: "28 do not have it yet", exact: false }).click();
    await expect.poll(() => router.state.location.search).toEqual({ filter: `applied!="${commit}"`, order: "-since" });
    await expect
      .poll(() => answers.queries.at(-1)?.filter)
      .toBe(`repository=demo commit="${commit}" applied!="${commit}"`);
    await expect.element(page.getByText("9,972 of 10,000 services have it (99.7 %)")).toBeVisible();
    await page.getByRole("link", { name: "100 failed or degraded" }).click();
    await expect.poll(() => router.state.location.search).toEqual({ phase: "FAILED,DEGRADED" });
  });

  test("a commit leads there from a list, and its repository back", async () => {
    const { router } = open("/services");
    await page.getByRole("link", { name: "4f2c1e0a" }).first().click();
    await expect.poll(() => router.state.location.pathname).toBe(`/commits/demo@${commit}`);
    await page.getByRole("main").getByRole("link", { name: "demo", exact: true }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/repositories/demo");
  });

  test("one that no service has says so", async () => {
    open(`/commits/demo@${commit}`, { sizes: {} });
    await expect.element(page.getByRole("heading", { name: "No service has this commit" })).toBeVisible();
    await expectAccessible();
  });

  test("a hub that is away is not an empty commit", async () => {
    open(`/commits/demo@${commit}`, {
      before: () => {
        throw new ConnectError("", Code.Unavailable);
      },
    });
    await expect.element(page.getByText("The hub does not answer").first()).toBeVisible();
    await expectAccessible();
  });

  test("an address cannot choose another filter", async () => {
    const { answers } = open("/commits/demo@4f2c%22%20phase=FAILED");
    await expect.element(page.getByText("There is no such object")).toBeVisible();
    expect(answers.queries).toEqual([]);
  });
});
