// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import { RepositoryType, type WebhookDeliverySchema, WebhookOutcome } from "../src/gen/leat/gitcache/v1/repository_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub, refusal, repositoryDocument } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

const delivery = (
  minutes: number,
  outcome: WebhookOutcome,
  refs: string[] = [],
  provider = "github",
): MessageInitShape<typeof WebhookDeliverySchema> => ({
  receiveTime: timestampFromMs(Date.now() - minutes * 60_000),
  provider,
  outcome,
  refs,
});

/** Opens a repository whose deliveries are those of the list, and a way to have the page ask for them again. */
function open(
  deliveries: MessageInitShape<typeof WebhookDeliverySchema>[],
  path = "/repositories/demo",
  change: Partial<Answers> = {},
) {
  let asks = 0;
  let wake = () => {};
  const { hub, answers } = makeHub({
    ...change,
    fleet: {
      listWebhookDeliveries: () => {
        asks += 1;
        return { deliveries };
      },
      ...change.fleet,
    },
  });
  const sleep = (ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve());
      if (ms === 3000 || ms === 20_000) wake = resolve;
    });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={{ ...hub, surroundings: { ...hub.surroundings, sleep } }} router={router} />);
  return { router, answers, asks: () => asks, again: () => wake() };
}

const setUp = page.getByRole("button", { name: "Set up a webhook" });

test("the last deliveries say what became of each, and what helps", async () => {
  open([
    delivery(1, WebhookOutcome.ACCEPTED, ["refs/heads/main"]),
    delivery(3, WebhookOutcome.WRONG_KEY),
    delivery(9, WebhookOutcome.UNMATCHED, ["refs/tags/v1", "a\u202Eb"]),
    delivery(20, WebhookOutcome.UNSPECIFIED, [], "later"),
  ]);
  await expect.element(page.getByText("It has another secret.", { exact: false })).toBeVisible();
  await expect.element(page.getByText("It names the URL of another repository.", { exact: false })).toBeVisible();
  expect(document.body.textContent).not.toContain("\u202E");
  await expect.element(page.getByText("leat webhooks repository/demo")).toBeVisible();
  await expectAccessible();
});

test("the steps have the address of this repository, for the host that its URL speaks for", async () => {
  const document = repositoryDocument();
  if (document.object.case === "repository" && document.object.value.spec && document.object.value.metadata) {
    document.object.value.spec.url = "git@gitlab.example.com:team/demo.git";
    document.object.value.metadata.project = "shop";
  }
  const { router } = open([], "/repositories/shop/demo", {
    fleet: {
      get: () => ({ document }),
      watch: async function* () {
        yield { document };
        await new Promise(() => {});
      },
    },
  });
  await expect.element(page.getByText("No webhook has arrived in the last 30 days.")).toBeVisible();
  await setUp.click();
  await expect.poll(() => router.state.location.search).toEqual({ webhook: "gitlab" });
  await expect.element(page.getByText("https://leat.example.com/webhooks/gitlab/shop.demo")).toBeVisible();
  await expect.element(page.getByText("Push events and Tag push events")).toBeVisible();
  await userEvent.selectOptions(page.getByLabelText("Choose where the repository is"), "github");
  await expect.element(page.getByText("https://leat.example.com/webhooks/github/shop.demo")).toBeVisible();
  await expect.element(page.getByText("Just the push event")).toBeVisible();
  await expectAccessible();
  await page.getByRole("button", { name: "Hide the steps" }).click();
  await expect.poll(() => router.state.location.search).toEqual({});
});

test("a delivery appears while the page waits for it, and an older one does not count", async () => {
  const deliveries = [delivery(60, WebhookOutcome.ACCEPTED, ["refs/heads/old"])];
  const { asks, again, answers } = open(deliveries, "/repositories/demo?webhook=github");
  await expect.element(page.getByText("Waiting for a delivery …")).toBeVisible();
  await expectAccessible();
  deliveries.unshift(delivery(0, WebhookOutcome.NO_PROOF));
  again();
  await expect.element(page.getByText("A delivery has arrived")).toBeVisible();
  await expect
    .element(page.getByRole("main").getByText("It carries no secret.", { exact: false }).first())
    .toBeVisible();
  deliveries.unshift(delivery(0, WebhookOutcome.PING));
  deliveries[0] = { ...delivery(0, WebhookOutcome.PING), receiveTime: timestampFromMs(Date.now() + 1000) };
  again();
  await expect.element(page.getByText("The connection and the secret are right.", { exact: false })).toBeVisible();
  expect(asks()).toBe(3);
  // Deliveries are asked for: a page has two streams, and they are the object's and the list's.
  await expect.poll(() => answers.streams).toBe(2);
  await expectAccessible();
});

test("a hub that does not know its address says so", async () => {
  open([], "/repositories/demo?webhook=github", { fleet: { getServerInfo: () => ({}) } });
  await expect.element(page.getByText("…/webhooks/github/demo")).toBeVisible();
  await expect.element(page.getByText("The hub does not know its public address.", { exact: false })).toBeVisible();
});

test("who may not set the secret reads why", async () => {
  open([], "/repositories/demo?webhook=github", { can: ["get", "sync"] });
  await expect
    .element(page.getByRole("listitem").getByText("no binding of ada covers berlin", { exact: false }))
    .toBeVisible();
  await expectAccessible();
});

test("a registry has other hosts, and an address cannot choose one that there is not", async () => {
  const document = repositoryDocument();
  if (document.object.case === "repository" && document.object.value.spec)
    document.object.value.spec.type = RepositoryType.OCI;
  open([], "/repositories/demo?webhook=constructor", {
    fleet: {
      get: () => ({ document }),
      watch: async function* () {
        yield { document };
        await new Promise(() => {});
      },
    },
  });
  await expect.element(page.getByText("https://leat.example.com/webhooks/distribution/demo")).toBeVisible();
  expect(page.getByRole("option", { name: "GitHub" }).elements()).toHaveLength(0);
});

test("deliveries that cannot be read leave the rest of the page as it is", async () => {
  open([], "/repositories/demo", {
    fleet: {
      listWebhookDeliveries: () => {
        throw refusal(Code.Unavailable, "DEPENDENCY_UNAVAILABLE", "the repository cache does not answer");
      },
    },
  });
  await expect.element(page.getByText("The last deliveries cannot be read now")).toBeVisible();
  await expect.element(page.getByText("the repository cache does not answer")).toBeVisible();
  await expect.element(page.getByText("48.3 MB")).toBeVisible();
  await expectAccessible();
});
