// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { Metric, type QueryMetricsRequest } from "../src/gen/leat/agent/v1/agent_pb";
import { RevisionOutcome } from "../src/gen/leat/fleet/v1/resources_pb";
import { ms } from "../src/hub/time.ts";
import { figures, nearest, times } from "../src/parts/axis.ts";
import { clusterApi } from "./cluster.ts";
import { ago, refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const path = "/services/cart@berlin?tab=metrics";
const evil = "<img src=x onerror=alert(1)>";

/** Answers with a point at each step, for so many pods. */
const answers =
  (pods: number, change: (series: object[]) => object[] = (same) => same) =>
  ({ metric, start, end, step }: QueryMetricsRequest) => {
    const from = ms(start) ?? 0;
    const every = Number(step?.seconds ?? 15n) * 1000;
    const isMemory = metric >= Metric.MEMORY && metric <= Metric.MEMORY_LIMIT;
    const isBound = metric !== Metric.CPU && metric !== Metric.MEMORY;
    const unit = isMemory ? 1e6 : 0.001;
    const count = Math.floor(((ms(end) ?? 0) - from) / every);
    const series = Array.from({ length: pods }, (_, pod) => ({
      namespace: "shop",
      pod: `cart-7d4b9c5f68-${String(pod).padStart(5, "x")}`,
      points: Array.from({ length: count }, (_, i) => ({
        time: timestampFromMs(from + i * every),
        value: isBound ? 500 * unit : unit * (100 + 10 * pod + 40 * Math.sin(i / 12 + pod) + (i > count / 2 ? 60 : 0)),
      })),
    }));
    return { series: change(series), leftOut: pods > 40 ? 7 : 0, step };
  };

const revisions = () => ({
  revisions: [
    { number: 9n, outcome: RevisionOutcome.UNSPECIFIED, commits: [evil], plannedAt: ago(1) },
    { number: 8n, outcome: RevisionOutcome.HEALTHY, commits: ["4f2c".repeat(10)], appliedAt: ago(30) },
    { number: 7n, outcome: RevisionOutcome.FAILED, commits: ["77".repeat(20)], plannedAt: ago(50) },
    { number: 6n, outcome: RevisionOutcome.SUPERSEDED, commits: ["88".repeat(20)], appliedAt: ago(31) },
    { number: 5n, outcome: RevisionOutcome.HEALTHY, commits: ["99".repeat(20)], appliedAt: ago(300) },
  ],
});

function show(pods: number, search = "", change?: (series: object[]) => object[]) {
  return open(path + search, {
    agent: { getInventory: () => ({}), queryMetrics: answers(pods, change) },
    fleet: { listRevisions: revisions },
    ...clusterApi(),
  });
}

const slider = (name: string) => page.getByRole("slider", { name });

describe("charts", () => {
  test("show each pod, what it may have, and the revisions that were applied", async () => {
    const { router } = show(3);
    await expect.element(slider("CPU at a time")).toBeVisible();
    await expect.element(page.getByText("limit of each pod: 500 m")).toBeVisible();
    await expect.element(page.getByText("request of each pod: 500 MB")).toBeVisible();
    const flags = page.getByRole("button", { name: /^(Revision \d|\d+–\d)/ });
    // Two revisions of the same minute have one mark, and both charts have all.
    await expect.poll(() => flags.elements().map((each) => each.textContent)).toEqual(["6–8", "9", "6–8", "9"]);
    await expect
      .element(page.getByRole("button", { name: /Revision 8 \(4f2c4f2c\), applied .*: Healthy/ }).first())
      .toBeVisible();
    await expect.element(page.getByText("leat metrics service/cart@berlin --since 1h")).toBeVisible();
    expect(document.querySelector("img")).toBeNull();
    await expectAccessible();
    await page.getByText("6 hours").click();
    await expect.poll(() => router.state.location.search).toEqual({ tab: "metrics", since: 21600 });
    await expect.element(page.getByText("leat metrics service/cart@berlin --since 6h")).toBeVisible();
    // Revision 5 is in this span.
    await expect.poll(() => flags.elements().some((each) => each.textContent?.startsWith("5"))).toBe(true);
  });

  test("have a cursor for the keyboard, which says the figures of its time", async () => {
    show(5);
    const cpu = slider("CPU at a time");
    await expect.element(cpu).toBeVisible();
    (cpu.element() as HTMLElement).focus();
    await userEvent.keyboard("{ArrowLeft}");
    const last = cpu.element().getAttribute("aria-valuetext");
    expect(last).toMatch(/\d\d:\d\d: cart-7d4b9c5f68-\w+ \d+ m, .*and 2 more$/);
    await userEvent.keyboard("{PageDown}{ArrowLeft}");
    await expect.poll(() => cpu.element().getAttribute("aria-valuetext")).not.toBe(last);
    await userEvent.keyboard("{Home}");
    await expect.poll(() => cpu.element().getAttribute("aria-valuenow")).toBe("0");
    // The table has the figure of that time, too, until the cursor leaves.
    await expect.poll(() => page.getByRole("cell", { name: "–", exact: true }).elements().length).toBe(5);
    await userEvent.keyboard("{Escape}");
    await expect.poll(() => page.getByRole("cell", { name: "–", exact: true }).elements().length).toBe(10);
  });

  test("mark each sync, for people who may read the record of changes", async () => {
    const asked: string[] = [];
    open(path, {
      agent: { queryMetrics: answers(1) },
      fleet: {
        listRevisions: () => ({}),
        reviewAccess: () => ({ allowed: true }),
        listAuditRecords: ({ kind, name, verb }) => {
          asked.push(`${verb} ${kind} ${name}`);
          return {
            records: [
              { id: "a", time: ago(20), subject: "user:ada", reason: evil },
              { id: "b", time: ago(300), subject: "user:old" },
            ],
          };
        },
      },
      ...clusterApi(),
    });
    const sync = page.getByRole("button", { name: /^sync by ada, .*: <img/ });
    await expect.element(sync.first()).toHaveTextContent("sync");
    expect(sync.elements().length).toBe(2);
    expect(new Set(asked)).toEqual(new Set(["sync Service cart@berlin"]));
    expect(document.querySelector("img")).toBeNull();
    await expectAccessible();
  });

  test("draw twenty lines, and say how many are left out", async () => {
    show(50);
    await expect.element(page.getByText("37 pods are left out", { exact: false }).first()).toBeVisible();
    await expect.poll(() => document.querySelectorAll("[role=slider] path").length).toBe(40);
    await expectAccessible();
  });

  test("take nothing of a hostile answer but text and figures", async () => {
    show(1, "", () => [
      { namespace: "a", pod: evil.repeat(100), points: [{ time: timestampFromMs(Date.now() - 1000), value: 1 }] },
      { namespace: "b", pod: "back", points: [{ time: { seconds: 10n ** 15n }, value: 1 }, { value: 2 }] },
      {
        namespace: "c",
        pod: "order",
        points: [Number.NaN, Number.POSITIVE_INFINITY, -1, 3].map((value, i) => ({
          time: timestampFromMs(Date.now() - 9000 + i),
          value,
        })),
      },
    ]);
    await expect.element(slider("CPU at a time")).toBeVisible();
    await expect.element(page.getByText("c/order").first()).toBeVisible();
    expect(document.querySelector("img")).toBeNull();
    expect(document.body.textContent).not.toContain("b/back");
    await expectAccessible();
  });

  test("without figures say where they would come from", async () => {
    show(0);
    await expect.element(page.getByText("Prometheus has no figures")).toBeVisible();
    await expectAccessible();
  });

  test("say which field names the Prometheus", async () => {
    open(path, {
      agent: {
        queryMetrics: () => {
          throw refusal(
            Code.FailedPrecondition,
            "METRICS_NOT_CONFIGURED",
            "the agent does not know the cluster's Prometheus",
          );
        },
      },
      ...clusterApi(),
    });
    await expect.element(page.getByText("spec.agent.metrics", { exact: false })).toBeVisible();
    await expect.element(page.getByText("leat get cluster berlin -o yaml")).toBeVisible();
    await expectAccessible();
  });

  test("of an agent that has none say that it is too old", async () => {
    open(path, { agent: {}, ...clusterApi() });
    await expect.element(page.getByText("The agent is too old for charts")).toBeVisible();
  });

  test("of a Prometheus that fails have its words, and are tried again", async () => {
    let isDown = true;
    open(path, {
      agent: {
        queryMetrics: (request) => {
          if (isDown) throw refusal(Code.Unavailable, "METRICS_UNAVAILABLE", "Prometheus (service a/b:1) answered 503");
          return answers(1)(request);
        },
      },
      ...clusterApi(),
    });
    await expect.element(page.getByText("Prometheus (service a/b:1) answered 503").first()).toBeVisible();
    await expectAccessible();
    await expect.element(page.getByRole("button", { name: "Try again" }).first()).toBeVisible();
    isDown = false; // the next try comes without a click, too
    await expect.element(slider("Memory at a time")).toBeVisible();
  });

  test("without revisions say that they are not marked", async () => {
    const refuse = () => {
      throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "no");
    };
    open(path, {
      agent: { queryMetrics: answers(1) },
      fleet: { listRevisions: refuse, listAuditRecords: refuse },
      ...clusterApi(),
    });
    await expect.element(slider("CPU at a time")).toBeVisible();
    await expect.element(page.getByText("Revisions are not marked", { exact: false })).toBeVisible();
  });
});

describe("axes", () => {
  test.each([
    [0, [0, 1]],
    [Number.NaN, [0, 1]],
    [1, [0, 0.25, 0.5, 0.75, 1]],
    [0.13, [0, 0.05, 0.1, 0.15]],
    [97, [0, 25, 50, 75, 100]],
  ])("up to %s", (largest, ticks) => {
    const got = figures(largest);
    expect(got.length).toBe(ticks.length);
    for (const [i, tick] of ticks.entries()) expect(got[i]).toBeCloseTo(tick, 9);
  });

  test("every largest figure is within few ticks", () => {
    for (let largest = 1e-9; largest < 1e15; largest *= 1.37) {
      const got = figures(largest);
      expect(got.at(-1)).toBeGreaterThanOrEqual(largest * 0.999999);
      expect(got.length).toBeLessThanOrEqual(6);
    }
  });

  test("times are round and few", () => {
    const from = new Date(2026, 10, 28, 11, 7).getTime();
    expect(times(from, from + 3_600_000, 6).map((at) => new Date(at).getMinutes())).toEqual([10, 20, 30, 40, 50, 0]);
    expect(times(from, from + 7 * 86_400_000, 7).map((at) => new Date(at).getHours())).toEqual([0, 0, 0, 0, 0, 0, 0]);
  });

  test("the nearest of times", () => {
    expect([0, 14, 16, 99].map((at) => nearest([10, 20, 30], at))).toEqual([0, 0, 1, 2]);
    expect(nearest([], 5)).toBe(0);
  });
});
