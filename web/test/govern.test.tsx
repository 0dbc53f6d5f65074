// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { AuditRecordSchema, type ListAuditRecordsRequest } from "../src/gen/leat/fleet/v1/audit_pb";
import { type ReviewAccessRequest, ReviewAccessResponseSchema } from "../src/gen/leat/fleet/v1/people_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, ago, makeHub, refusal } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const button = (name: string) => page.getByRole("button", { name, exact: true });
const field = (name: string) => page.getByRole("textbox", { name });

const pause = (sequence: number) =>
  create(AuditRecordSchema, {
    sequence: BigInt(sequence),
    time: ago(sequence),
    subject: "user:ada",
    verb: "update",
    kind: "Service",
    name: "cart",
    cluster: "berlin",
    outcome: "OK",
    reason: "ticket 42 <b>é</b>",
    changes: [
      { path: "spec.paused", old: "false", new: "true" },
      { path: "spec.token", secretEffect: 2 },
    ],
    changesOmitted: 1,
  });
const refused = create(AuditRecordSchema, {
  sequence: 7n,
  time: ago(3),
  subject: "user:eve",
  verb: "delete",
  kind: "Cluster",
  name: "berlin",
  outcome: "ACCESS_DENIED",
  count: 12n,
});

describe("the audit log", () => {
  test("says who did what and why, with each changed field, and loads what is older", async () => {
    const asked: ListAuditRecordsRequest[] = [];
    open("/audit?by=ada&since=24h", {
      fleet: {
        listAuditRecords(request) {
          if (request.after > 0n) return { after: 9n };
          asked.push(request);
          return request.pageToken ? { records: [pause(1)] } : { records: [pause(9), refused], nextPageToken: "older" };
        },
      },
    });
    await expect.element(page.getByText("“ticket 42 <b>é</b>”")).toBeVisible();
    await expect.element(page.getByText("Stands for 12 refused calls.")).toBeVisible();
    await expect.element(page.getByText("ACCESS_DENIED")).toBeVisible();
    await expect.element(page.getByText("leat audit --by ada --since 24h")).toBeVisible();
    await page.getByText("3 changed fields").click();
    await expect.element(page.getByText("secret replaced", { exact: false })).toBeVisible();
    await expectAccessible();
    await button("Show older ones").click();
    await expect.element(page.getByText("No older records match.")).toBeVisible();
    expect(page.getByRole("link", { name: "cart@berlin" }).elements().length).toBe(2);
    expect(asked.map(({ subject, pageToken }) => [subject, pageToken])).toEqual([
      ["user:ada", ""],
      ["user:ada", "older"],
    ]);
  });

  test("its question is the address, and what is no question is not there", async () => {
    const { router } = open("/audit?since=never&verb=sync", { fleet: { listAuditRecords: () => ({}) } });
    await expect.element(page.getByText("No record")).toBeVisible();
    expect(router.state.location.search).toEqual({ verb: "sync" });
    await field("Person").fill(" eve ");
    await page.getByRole("combobox", { name: "Outcome" }).selectOptions("Refused");
    await button("Show").click();
    await expect.element(page.getByText("leat audit --by eve --verb sync --refused")).toBeVisible();
    expect(router.state.location.search).toEqual({ by: "eve", verb: "sync", outcome: "REFUSED" });
    router.history.back();
    await expect.element(field("Person")).toHaveValue("");
    await expect.element(field("Verb")).toHaveValue("sync");
    // What the address asks for cannot be hidden. Without it, the fields that people seldom need wait behind a button.
    expect(button("More filters").query()).toBeNull();
    await button("Clear").click();
    await expect.element(button("More filters")).toHaveAttribute("aria-expanded", "false");
    expect(field("Verb").query()).toBeNull();
    await button("More filters").click();
    await expect.element(field("Verb")).toHaveValue("");
    // What is typed survives when its field goes out of sight, and goes when the person says so.
    await field("Verb").fill("pause");
    await button("More filters").click();
    await expect.element(field("Verb")).not.toBeInTheDocument();
    await button("More filters").click();
    await expect.element(field("Verb")).toHaveValue("pause");
    await button("Clear").click();
    await expect.element(field("Verb")).toHaveValue("");
    await expectAccessible();
  });

  test("who may not read it is told so", async () => {
    open("/audit", {
      fleet: {
        listAuditRecords() {
          throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "only administrators see the record");
        },
      },
    });
    await expect.element(page.getByText("only administrators see the record")).toBeVisible();
    await expectAccessible();
  });
});

const allowed = create(ReviewAccessResponseSchema, {
  allowed: true,
  reason: "the binding shop-team allows it",
  user: "ada",
  groups: ["leat:operators"],
  reasons: [
    {
      binding: "shop-team",
      subjects: ["group:shop"],
      roleName: "operator",
      rules: [{ verbs: ["get"], resources: ["pods/log"], apiGroups: [""], namespaces: ["shop"] }],
      expireTime: ago(-600),
    },
    { subjects: ["user:ada"], roleName: "admin" },
  ],
});

describe("who may do what", () => {
  test("an answer names the bindings, and who else may", async () => {
    const asked: ReviewAccessRequest[] = [];
    open("/access?cluster=berlin&verb=get&resource=pods/log&namespace=shop&user=ada", {
      fleet: {
        reviewAccess(request) {
          asked.push(request);
          return allowed;
        },
        listAccessHolders: () => ({
          holders: [
            { person: "ada", subject: "group:shop", reason: { binding: "shop-team", roleName: "operator" } },
            { subject: "group:everyone", reason: { binding: "all", roleName: "viewer" }, until: ago(-60) },
          ],
          gaps: ["the record of 2026-01-02 lacks fields"],
        }),
      },
    });
    await expect.element(page.getByText("the binding shop-team allows it")).toBeVisible();
    await expect.element(page.getByText("get of pods/log in core in the namespaces shop")).toBeVisible();
    await expect.element(page.getByText("everybody in everyone")).toBeVisible();
    await expect.element(page.getByText("the record of 2026-01-02 lacks fields")).toBeVisible();
    await expect.element(page.getByText("leat access berlin get pods/log -n shop --as ada")).toBeVisible();
    // The page also asks what the person may do on it.
    expect(asked.find(({ user }) => user === "ada")).toMatchObject({
      cluster: "berlin",
      attributes: { verb: "get", apiGroup: "", resource: "pods/log", namespace: "shop" },
    });
    await expectAccessible();
  });

  test("without a verb and a resource the answer is about everything", async () => {
    open("/access", {
      fleet: {
        reviewAccess: ({ attributes }) => ({
          allowed: true,
          permissions: attributes ? [] : [{ verb: "sync", resource: "services" }],
        }),
      },
    });
    await expect.element(page.getByRole("cell", { name: "services" })).toBeVisible();
    await field("Verb").fill("delete");
    await button("Ask").click();
    await expect.element(page.getByText("One thing needs both a verb and a resource.", { exact: false })).toBeVisible();
    await expectAccessible();
  });

  test("who may not see the others still sees the answer", async () => {
    open("/access?cluster=berlin&verb=delete&resource=pods", {
      fleet: {
        reviewAccess: () => ({ allowed: false, reason: "no binding allows delete pods" }),
        listAccessHolders() {
          throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "no");
        },
      },
    });
    await expect.element(page.getByText("no binding allows delete pods")).toBeVisible();
    await expect.element(page.getByText("Only people who may read the audit log", { exact: false })).toBeVisible();
  });
});

describe("the person's account", () => {
  test("shows tokens and sign-ins, and ends one after a question", async () => {
    const ended: [string, string | null][] = [];
    let tokens = [
      { id: "1a", user: "ada", label: "laptop", createTime: ago(6000), lastUsedTime: ago(4), expireTime: ago(-9000) },
      {
        id: "2b",
        user: "ada",
        label: "shop pipeline",
        createTime: ago(60),
        limit: { role: 1, projects: { names: ["shop"] }, clusters: { labels: { matchLabels: { stage: "prod" } } } },
      },
    ];
    open("/me", {
      fleet: {
        listTokens: ({ user }) => ({ tokens: tokens.filter((token) => token.user === user) }),
        deleteToken({ id }, { requestHeader }) {
          ended.push([id, requestHeader.get("Leat-Reason")]);
          tokens = tokens.filter((token) => token.id !== id);
          return {};
        },
      },
      sessions: {
        listSessions: () => ({
          sessions: [
            { id: "S1", person: "ada", provider: "corp", client: 1, createTime: ago(30), expireTime: ago(-700) },
          ],
        }),
      },
    });
    await expect.element(page.getByText("shop pipeline")).toBeVisible();
    await expect.element(page.getByText("clusters with certain labels", { exact: false })).toBeVisible();
    await expect.element(page.getByText("Command line")).toBeVisible();
    await expectAccessible();
    await button("End it").nth(1).click();
    await expect.element(page.getByText("leat delete token/2b")).toBeVisible();
    await page.getByRole("dialog").getByRole("button", { name: "End it" }).click();
    await expect.element(page.getByText("shop pipeline")).not.toBeInTheDocument();
    expect(ended).toEqual([["2b", null]]);
    await expect.element(page.getByText("laptop", { exact: true })).toBeVisible();
  });
});
