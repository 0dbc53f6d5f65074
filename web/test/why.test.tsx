// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { RevisionOutcome, type Service } from "../src/gen/leat/fleet/v1/resources_pb";
import { Health, ServicePhase } from "../src/gen/leat/type/v1/state_pb";
import { clusterApi, event, failure, offline } from "./cluster.ts";
import { refusal, serviceDocument } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const pods = [
  { name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9" },
  { name: "cart-7d4b9-bbbbb", owner: "cart-7d4b9", status: "CrashLoopBackOff", ready: "0/1", restarts: "12 (3m ago)" },
];
const events = [
  event("cart-7d4b9-bbbbb", "BackOff", "Back-off restarting failed container web"),
  event("search-7d4b9-ccccc", "FailedMount", "of another service"),
];
const logs = {
  "cart-7d4b9-bbbbb web previous": `${Array.from({ length: 30 }, (_, index) => `line ${index}`).join("\n")}\n\u001b[31mpanic\u001b[0m: no quota\n`,
};

const part = (name: string) =>
  page.getByRole("heading", { level: 3, name, exact: true }).element().closest("section") as HTMLElement;
const panel = page.getByRole("heading", { name: "Why it is not well" });

describe("why", () => {
  test("it leads from the service to the last words of the container that ended", async () => {
    open("/services/cart@berlin", clusterApi({ pods, deployments: ["cart"], events, logs }));
    await expect.element(panel).toBeVisible();
    await expect.element(page.getByText("Back-off restarting failed container web")).toBeVisible();
    await expect.element(page.getByText("no quota", { exact: false })).toBeVisible();
    await expect
      .element(page.getByText("Container web · OOMKilled · exit code 137 · 12 restarts", { exact: false }))
      .toBeVisible();
    expect(part("What is wrong").textContent).toContain("cart-7d4b9-bbbbb");
    await expect.poll(() => part("What changed before").textContent).toContain("Revision 7");
    expect(part("What changed before").textContent).toContain("spec.replicas");
    expect(page.getByText("of another service").elements()).toHaveLength(0);
    await expect
      .element(page.getByText("kubectl logs cart-7d4b9-bbbbb -n shop -c web --previous --tail=30"))
      .toBeVisible();
    await expectAccessible();
  });

  test("no part waits for another, and each has its own error", async () => {
    open(
      "/services/cart@berlin",
      clusterApi({
        pods,
        deployments: ["cart"],
        logs,
        before: ({ pathname }) => {
          if (pathname.endsWith("/events")) return failure(403, "events is forbidden: User ada cannot list");
          return pathname.includes("/deployments/") ? new Promise<Response>(() => {}) : undefined;
        },
      }),
    );
    await expect.element(page.getByText("events is forbidden: User ada cannot list")).toBeVisible();
    await expect.element(page.getByText("Revision 7")).toBeVisible();
    expect(part("Latest warnings").textContent).toContain("The cluster does not allow this");
    expect(part("What is wrong").textContent).toContain("exceeded quota");
    await expectAccessible();
  });

  test("a cluster that is away is said once a part, and the hub's word stays", async () => {
    open("/services/cart@berlin", clusterApi({ before: offline }));
    await expect.element(page.getByText("The cluster is not connected").first()).toBeVisible();
    await expect.element(page.getByText("Revision 7")).toBeVisible();
    await expectAccessible();
  });

  test("it can be closed, and then asks nothing; the address keeps that", async () => {
    const asked: string[] = [];
    const { router } = open("/services/cart@berlin", {
      kube: (path) => {
        asked.push(path);
        return failure(404, "gone");
      },
    });
    await expect.element(panel).toBeVisible();
    await page.getByRole("button", { name: "Hide the explanation" }).click();
    await expect.element(panel).not.toBeInTheDocument();
    expect(router.state.location.search).toEqual({ why: false });
    const before = asked.length;
    await page.getByRole("tab", { name: "Revisions" }).click();
    await expect.poll(() => router.state.location.search).toEqual({ why: false, tab: "revisions" });
    expect(asked).toHaveLength(before);
  });

  test("a service that is well has no such question", async () => {
    const document = serviceDocument();
    if (document.object.case === "service" && document.object.value.status) {
      document.object.value.status.phase = ServicePhase.HEALTHY;
      delete document.object.value.status.problem;
    }
    open("/services/cart@berlin", { fleet: { get: () => ({ document }), watch: async function* () {} } });
    await expect.element(page.getByRole("button", { name: "Sync now" })).toBeVisible();
    expect(page.getByRole("button", { name: "Why?" }).elements()).toHaveLength(0);
  });

  test("a failure before the cluster says so", async () => {
    const document = serviceDocument();
    if (document.object.case === "service" && document.object.value.status?.report)
      document.object.value.status.report.objects = [];
    open("/services/cart@berlin", {
      fleet: {
        get: () => ({ document }),
        watch: async function* () {},
        listRevisions: () => {
          throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "ada may not list revisions");
        },
      },
    });
    await expect
      .element(page.getByText("The agent reports no object that is unhealthy", { exact: false }))
      .toBeVisible();
    await expect.element(page.getByText("ada may not list revisions")).toBeVisible();
    await expectAccessible();
  });

  test("an object that is as healthy as before, and whose change was refused, is the cause", async () => {
    const document = serviceDocument();
    if (document.object.case !== "service") throw new Error("no service");
    const report = document.object.value.status?.report;
    const [object] = report?.objects ?? [];
    if (!report || !object?.problem) throw new Error("no object");
    report.objects = [object];
    object.health = Health.HEALTHY;
    object.problem.reason = Reason.APPLY_REJECTED;
    object.problem.message = "the API server refused: spec.replicas: Invalid value: -1";
    open("/services/cart@berlin", { fleet: { get: () => ({ document }), watch: async function* () {} } });
    await expect.element(panel).toBeVisible();
    await expect.poll(() => part("What is wrong").textContent).toContain("Invalid value: -1");
  });

  test("how the latest revision ended comes with the agent's phase", async () => {
    const document = serviceDocument();
    const report = (document.object.value as Service).status?.report;
    if (!report) throw new Error("the service has no report");
    report.phase = ServicePhase.PROGRESSING;
    let outcome = RevisionOutcome.UNSPECIFIED;
    const pushed = Promise.withResolvers<void>();
    open("/services/cart@berlin", {
      fleet: {
        get: () => ({ document }),
        async *watch() {
          yield { document };
          await pushed.promise;
          yield { document };
          await new Promise(() => {});
        },
        listRevisions: () => ({ revisions: [{ number: 7n, outcome, commits: ["8".repeat(40)] }] }),
      },
    });
    await expect.element(panel).toBeVisible();
    await expect.poll(() => part("What changed before").textContent).toContain("In progress");
    outcome = RevisionOutcome.FAILED;
    report.phase = ServicePhase.DEGRADED;
    pushed.resolve();
    await expect.poll(() => part("What changed before").textContent).toContain("Failed");
  });

  test("what clusters write is text, and holds the layout", async () => {
    const evil = '<script>document.title="broken"</script>\u202e\u001b]8;;javascript:alert(1)\u0007';
    const flood = Array.from({ length: 10_000 }, (_, index) =>
      event("cart-7d4b9-bbbbb", `R${index}`, evil.repeat(100)),
    );
    open(
      "/services/cart@berlin",
      clusterApi({
        pods,
        deployments: ["cart"],
        events: flood,
        logs: { "cart-7d4b9-bbbbb web previous": `${evil.repeat(20_000)}\n` },
      }),
    );
    await expect.element(page.getByText("U+202E").first()).toBeVisible();
    await expect.element(page.getByText("… and", { exact: false }).first()).toBeVisible();
    expect(document.title).not.toBe("broken");
    expect(document.querySelector("#app script, #app a[href^=javascript]")).toBeNull();
    await expectAccessible();
  });
});
