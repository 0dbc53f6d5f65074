// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub, refusal, repositoryDocument } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const heading = (name: string | RegExp) => page.getByRole("heading", { level: 1, name });

describe("a repository", () => {
  test("it says how fresh it is, and who uses it", async () => {
    const { answers } = open("/repositories/demo");
    await expect.element(heading("demo")).toBeVisible();
    await expect.element(page.getByText("48.3 MB")).toBeVisible();
    await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
    expect(answers.queries.every((query) => query.filter.startsWith("repository=demo"))).toBe(true);
    expect(document.title).toBe("demo · Leat");
    await expect.poll(() => answers.streams).toBe(2);
    await expectAccessible();
  });

  test("one that cannot be read has the reason, the advice, and the refs that are held back", async () => {
    const stale = () => ({ document: repositoryDocument(true) });
    open("/repositories/demo", {
      fleet: {
        get: stale,
        watch: async function* () {
          yield stale();
          await new Promise(() => {});
        },
      },
    });
    await expect.element(page.getByText("dial tcp 192.0.2.7:443: i/o timeout")).toBeVisible();
    await expect.element(page.getByText("Leat continues to serve mirrored content", { exact: false })).toBeVisible();
    await expect.element(page.getByText("refs/heads/experiment")).toBeVisible();
    await expect.element(page.getByText("2 entries of the index cannot be used")).toBeVisible();
    await expectAccessible();
  });

  test("one that nothing uses says so", async () => {
    open("/repositories/demo", { sizes: {} });
    await expect.element(page.getByText("No service uses it")).toBeVisible();
    await expectAccessible();
  });

  test("a refusal and an absent hub are not an empty page", async () => {
    open("/repositories/secret", {
      before: () => {
        throw refusal(Code.NotFound, "NOT_FOUND", 'there is no repository "secret"');
      },
    });
    await expect.element(page.getByText('there is no repository "secret"')).toBeVisible();
    await expectAccessible();
  });

  test("a hub that is away is tried again", async () => {
    open("/repositories/demo", {
      before: () => {
        throw new ConnectError("", Code.Unavailable);
      },
    });
    await expect.element(page.getByText("The hub does not answer")).toBeVisible();
  });
});
