// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { page } from "vitest/browser";
import { arrivalOf } from "./arrival.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const commit = "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e";
const path = `/commits/demo@${commit}`;
const seconds = (n: number) => ({ seconds: BigInt(n) });

test("half, 99 %, the slowest and those that are not there yet are said, by the two streams of the page", async () => {
  const { answers } = open(path);
  await expect.element(page.getByText("Half of the services were healthy in 12 s, 99 % in 1 min 40 s")).toBeVisible();
  await expect.element(page.getByRole("row", { name: "healthy 12 s 48 s 1 min 40 s 4 min 3 s" })).toBeVisible();
  await expect.element(page.getByRole("link", { name: "web@osaka" })).toBeVisible();
  await expect
    .element(
      page.getByText("1,000 services are not healthy with it yet, and are not in the figures.", { exact: false }),
    )
    .toBeVisible();
  await expect.element(page.getByText("Of 28 services the time is not known", { exact: false })).toBeVisible();
  await expect
    .element(page.getByText(`leat get services -A --repository demo --commit ${commit}`, { exact: true }))
    .toBeVisible();
  expect(answers.queries.find(({ arrivalOf }) => arrivalOf !== "")?.arrivalOf).toBe(commit);
  await expect.poll(() => answers.streams).toBe(2);
  await expectAccessible();
});

test("the figures follow the fleet", async () => {
  let half = 12;
  const { answers } = open(path, {
    arrival: () => ({ healthy: { ...arrivalOf(100).healthy, p50: seconds(half) } }),
  });
  await expect.element(page.getByText("Half of the services were healthy in 12 s", { exact: false })).toBeVisible();
  await expect.poll(() => answers.streams).toBe(2);
  half = 14;
  answers.changeLists();
  await expect.element(page.getByText("Half of the services were healthy in 14 s", { exact: false })).toBeVisible();
});

test("before the first service is healthy, the page says how long the applies took", async () => {
  open(path, { arrival: () => ({ applied: arrivalOf(100).applied, healthy: { pending: 100 } }) });
  await expect.element(page.getByText("Half of the services had it in 3.5 s, 99 % in 41 s")).toBeVisible();
  await expect.element(page.getByRole("row", { name: "healthy — — — —" })).toBeVisible();
  await expectAccessible();
});

test("one service has no share, and no list of the slowest", async () => {
  open(path, { arrival: () => ({ healthy: { ...arrivalOf(1).healthy, count: 1, pending: 0, unknown: 0 } }) });
  await expect.element(page.getByText("The one service that was measured was healthy in 12 s")).toBeVisible();
  await expect.element(page.getByRole("list", { name: "The slowest" })).not.toBeInTheDocument();
});

test("nothing that was measured is no time of zero", async () => {
  open(path, { arrival: () => ({ applied: { pending: 3 }, healthy: { pending: 3 } }) });
  await expect.element(page.getByText("No service was measured yet")).toBeVisible();
  await expect.element(page.getByRole("row", { name: "applied — — — —" })).toBeVisible();
});

test("a hub that does not measure has no card, and neither has a commit that no service has", async () => {
  open(path, { arrival: () => undefined });
  await expect.element(page.getByRole("heading", { name: "Where it is" })).toBeVisible();
  await expect.element(page.getByRole("heading", { name: "How long it took" })).not.toBeInTheDocument();
});

test("spans that make no sense are a dash", async () => {
  const far = { seconds: 2n ** 62n };
  open(path, { arrival: () => ({ healthy: { count: 2, p50: far, p90: seconds(-1), p99: far, max: far } }) });
  await expect.element(page.getByRole("row", { name: "healthy — — — —" })).toBeVisible();
});
