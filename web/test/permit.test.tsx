// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { type Answers, refusal, serviceDocument } from "./hub.ts";
import { open } from "./open.tsx";
import { reachApi } from "./reach.ts";
import { expectAccessible } from "./render.tsx";

/** Returns answers to a person without rights, who is asked about by the hub's own question alone. */
function without() {
  const asked: string[] = [];
  const called: string[] = [];
  const call = (name: string) => () => {
    called.push(name);
    throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "this call is on record as refused");
  };
  const answers: Partial<Answers> = {
    fleet: {
      reviewAccess: ({ cluster, attributes }) => {
        const needs = `${attributes?.verb} ${attributes?.resource}`;
        asked.push(`${needs} ${cluster} ${attributes?.apiGroup}`);
        return { reason: `no binding gives ada the permission "${needs}" there` };
      },
      listAuditRecords: call("ListAuditRecords"),
      listAccessHolders: call("ListAccessHolders"),
    },
    agent: {
      getInventory: call("GetInventory"),
      queryMetrics: call("QueryMetrics"),
      diff: call("Diff"),
      watchEvents: call("WatchEvents"),
    },
    tunnel: { listRecordings: call("ListRecordings"), getRecording: call("GetRecording") },
    kube: (path) => {
      called.push(path);
      return new Response("", { status: 403 });
    },
  };
  return { answers, asked, called };
}

describe("what the hub would refuse is not called", () => {
  for (const [path, needs, cluster] of [
    ["/services/cart@berlin?tab=objects", "get services/inventory", "berlin"],
    ["/services/cart@berlin?tab=logs", "get services/inventory", "berlin"],
    ["/services/cart@berlin?tab=metrics", "get services/inventory", "berlin"],
    ["/services/cart@berlin?tab=events", "get services/inventory", "berlin"],
    ["/services/cart@berlin?tab=diff", "get services/diff", "berlin"],
    ["/audit", "list auditrecords", ""],
    ["/recordings", "list recordings", ""],
    ["/recordings/1a", "get recordings", ""],
  ] as const) {
    test(`${path} has the hub's words`, async () => {
      const { answers, asked, called } = without();
      open(path, answers);
      const refusal = page.getByText(`no binding gives ada the permission "${needs}" there`);
      // Each part of a page that is refused has the words.
      await expect.element(refusal.first()).toBeVisible();
      expect(page.getByRole("button", { name: "Try again" }).elements()).toHaveLength(0);
      expect(asked).toContain(`${needs} ${cluster} leat.dev`);
      expect(called).toEqual([]);
      await expectAccessible();
    });
  }

  test("a kind of a cluster is not listed, and neither are its namespaces", async () => {
    const { kube, requests } = reachApi();
    const { answers, asked } = without();
    open("/clusters/berlin/resources?kind=deployments.apps&namespace=shop", { ...answers, kube });
    await expect.element(page.getByText('no binding gives ada the permission "list deployments" there')).toBeVisible();
    await expect.poll(() => asked).toContain("list namespaces berlin ");
    expect(requests.map(({ url }) => url.pathname)).not.toContain("/api/v1/namespaces");
    expect(requests.map(({ url }) => url.pathname)).not.toContain("/apis/apps/v1/namespaces/shop/deployments");
    await expectAccessible();
  });

  test("who else has a right is for readers of the record", async () => {
    const { answers, called } = without();
    open("/access?cluster=berlin&verb=delete&resource=pods", answers);
    await expect.element(page.getByText("Only people who may read the audit log", { exact: false })).toBeVisible();
    expect(called).toEqual([]);
  });
});

test("the cluster of another project is asked about as people name it", async () => {
  const { answers, asked } = without();
  const document = serviceDocument();
  if (document.object.case === "service" && document.object.value.spec)
    document.object.value.spec.cluster = "shop/nairobi";
  open("/services/cart@berlin?tab=diff", { ...answers, fleet: { ...answers.fleet, get: () => ({ document }) } });
  await expect.poll(() => asked).toContain("get services/diff shop/nairobi leat.dev");
});

test("a hub that does not say is asked by the call itself", async () => {
  open("/services/cart@berlin?tab=objects", {
    fleet: {
      reviewAccess: () => {
        throw refusal(Code.Unavailable, "", "busy");
      },
    },
    agent: { getInventory: () => ({ objects: [] }) },
  });
  await expect.element(page.getByText("No object", { exact: true })).toBeVisible();
});

test("what reads by the same permission shares one question", async () => {
  let questions = 0;
  open("/services/cart@berlin?tab=objects", {
    fleet: {
      reviewAccess: ({ attributes }) => {
        if (attributes?.resource === "services/inventory") questions += 1;
        return { allowed: true };
      },
    },
    agent: { getInventory: () => ({ objects: [] }) },
  });
  await expect.element(page.getByText("No object", { exact: true })).toBeVisible();
  await page.getByRole("tab", { name: "Logs" }).click();
  await expect.element(page.getByText("No pod, so no log")).toBeVisible();
  expect(questions).toBe(1);
});
