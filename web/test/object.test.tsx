// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { browserSurroundings } from "../src/hub/live.ts";
import { event, failure } from "./cluster.ts";
import type { Answers } from "./hub.ts";
import { open as openPage } from "./open.tsx";
import { type FakeReach, object, reachApi } from "./reach.ts";
import { expectAccessible } from "./render.tsx";

function open(path: string, change: Partial<FakeReach> = {}, answers: Partial<Answers> = {}) {
  const api = reachApi(change);
  return { ...openPage(`/clusters/berlin/resources/${path}`, { kube: api.kube, ...answers }), api };
}

const text = (words: string | RegExp) => page.getByText(words);
const managed = (manager: string, fields: object) => ({ manager, operation: "Apply", fieldsV1: fields });

const deployment = object(
  "cart",
  {
    apiVersion: "apps/v1",
    kind: "Deployment",
    status: {
      conditions: [
        { type: "Available", status: "False", reason: "MinimumReplicasUnavailable", message: "1 of 2 is ready" },
        { type: "Progressing", status: "True", reason: "NewReplicaSetAvailable" },
      ],
    },
  },
  {
    labels: { "leat.dev/service": "cart", app: "cart" },
    managedFields: [managed("leat", { "f:spec": { "f:replicas": {} } })],
    ownerReferences: [{ apiVersion: "example.com/v1beta1", kind: "Widget", name: "one", uid: "u", controller: true }],
  },
);
const widget = object("one", { apiVersion: "example.com/v1beta1", kind: "Widget" });
const path = "apps/v1/deployments/shop/cart";

describe("an object of a cluster", () => {
  test("has its facts, its service, its owners and its conditions", async () => {
    open(path, { objects: [deployment, widget] });
    await expect.element(page.getByRole("heading", { level: 1, name: "cart" })).toBeVisible();
    await expect.element(text("MinimumReplicasUnavailable")).toBeVisible();
    await expect
      .element(page.getByRole("link", { name: "one" }))
      .toHaveAttribute("href", "/ui/clusters/berlin/resources/example.com/v1beta1/widgets/shop/one");
    await expect.element(page.getByRole("link", { name: "cart" })).toHaveAttribute("href", "/ui/services/cart@berlin");
    await expect.element(text("leat (Leat's agent)")).toBeVisible();
    await expect.element(text("kubectl --context leat-berlin -n shop describe deployments.apps/cart")).toBeVisible();
    await expectAccessible();
  });

  test("is of no service by a label alone", async () => {
    const copied = object("cart", {}, { labels: { "leat.dev/service": "cart" } });
    open("core/v1/configmaps/shop/cart", { objects: [copied] });
    await expect.element(text("leat.dev/service")).toBeVisible();
    await expect.element(page.getByRole("link", { name: "cart" })).not.toBeInTheDocument();
  });

  test("has what was noted about it", async () => {
    const { router, api } = open(path, {
      objects: [deployment],
      before: ({ url }) =>
        url.pathname.endsWith("/events")
          ? Response.json({ items: [event("cart", "FailedCreate", "exceeded quota")] })
          : undefined,
    });
    await page.getByRole("tab", { name: "Events" }).click();
    await expect.element(text("exceeded quota")).toBeVisible();
    expect(router.state.location.search).toEqual({ tab: "events" });
    const asked = api.requests.find(({ url }) => url.pathname.endsWith("/events"))?.url;
    expect(asked?.searchParams.get("fieldSelector")).toBe("involvedObject.uid=uid-cart");
    await expectAccessible();
  });

  test.each([
    ["gone", () => failure(404, 'deployments.apps "cart" not found'), "The cluster has no such object"],
    ["refused", () => failure(403, 'User "ada" cannot get it'), "The cluster does not allow this"],
  ])("that is %s is said to be", async (_, before, words) => {
    open(path, { before: ({ url }) => (url.pathname.endsWith("/cart") ? before() : undefined) });
    await expect.element(page.getByRole("heading", { name: words })).toBeVisible();
    await expectAccessible();
  });

  test("is text, whatever it has", async () => {
    const evil = `<img src=x onerror=alert(1)>\u202egnp.exe`;
    open("core/v1/configmaps/shop/cart", {
      objects: [
        object(
          "cart",
          { kind: "ConfigMap", status: { conditions: [{ type: evil, status: evil, message: evil.repeat(30_000) }] } },
          {
            annotations: Object.fromEntries([
              [evil, evil.repeat(30_000)],
              ["link", "javascript:alert(1)"],
              ...Array.from({ length: 100 }, (_, index) => [`a${index}`, "x"]),
            ]),
            ownerReferences: [{ kind: evil, name: evil }],
            managedFields: [{ manager: evil }],
            finalizers: [evil],
            deletionTimestamp: "2026-11-28T11:17:42Z",
          },
        ),
      ],
    });
    await expect.element(text("U+202E").first()).toBeVisible();
    await expect.element(text(/more are in the YAML/)).toBeVisible();
    expect(document.querySelector("#app img, #app a:not([href^='/ui/'])")).toBeNull();
    expect(document.querySelector("#app")?.textContent?.length).toBeLessThan(20_000);
    await expectAccessible();
  });
});

describe("a Secret", () => {
  const secret = object(
    "login",
    { kind: "Secret", data: { password: btoa("hunter2"), user: btoa("ada") } },
    {
      annotations: { "kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"${btoa("hunter2")}"}}` },
      managedFields: [managed("kubectl", { "f:data": { ".": {}, "f:password": {}, "f:user": {} } })],
    },
  );
  const at = "core/v1/secrets/shop/login";
  const show = page.getByRole("button", { name: "Show password" });
  const shown = () => document.querySelector("#app")?.textContent ?? "";

  /** Surroundings whose minute ends, and whose tab is hidden, when the test says so. */
  function surroundings() {
    const minutes: (() => void)[] = [];
    const listeners = new Set<() => void>();
    let isHidden = false;
    const real = browserSurroundings();
    return {
      env: {
        ...real,
        sleep: (ms: number, signal: AbortSignal) =>
          ms === 60_000 ? new Promise<void>((resolve) => minutes.push(resolve)) : real.sleep(ms, signal),
        isHidden: () => isHidden,
        onVisibility: (listener: () => void) => {
          listeners.add(listener);
          return () => void listeners.delete(listener);
        },
      },
      endMinute: () => minutes.pop()?.(),
      hide: () => {
        isHidden = true;
        for (const listener of listeners) listener();
      },
    };
  }

  test.each(["after a minute", "when the tab is hidden"])(
    "has its values masked, and one shown is gone %s",
    async (when) => {
      const { env, endMinute, hide } = surroundings();
      const { api } = open(at, { objects: [secret] }, { around: { surroundings: env } });
      await expect.element(show).toBeVisible();
      // Until somebody asks, no answer has had a value.
      const reads = () => api.requests.filter(({ url }) => url.pathname.endsWith("/secrets/login"));
      expect(reads().every(({ accept }) => accept.includes("PartialObjectMetadata"))).toBe(true);
      expect(shown()).not.toContain(btoa("hunter2"));
      await expectAccessible();
      await show.click();
      await expect.element(text("hunter2")).toBeVisible();
      expect(shown()).not.toContain("YWRh");
      expect(reads().filter(({ accept }) => !accept.includes("PartialObjectMetadata"))).toHaveLength(1);
      if (when === "after a minute") endMinute();
      else hide();
      await expect.element(text("hunter2")).not.toBeInTheDocument();
      await expect.element(show).toBeVisible();
    },
  );

  test("shows one value at a time, by a fresh read each", async () => {
    const { api } = open(at, { objects: [secret] });
    await show.click();
    await expect.element(text("hunter2")).toBeVisible();
    await page.getByRole("button", { name: "Show user" }).click();
    await expect.element(page.getByRole("button", { name: "Hide user" })).toBeVisible();
    expect(shown()).not.toContain("hunter2");
    expect(
      api.requests.filter(({ accept, url }) => url.pathname.endsWith("/login") && accept === "application/json"),
    ).toHaveLength(2);
  });

  test("is masked even if a server answers with all of it", async () => {
    open(at, { before: ({ url }) => (url.pathname.endsWith("/login") ? Response.json(secret) : undefined) });
    await expect.element(show).toBeVisible();
    expect(shown()).not.toContain(btoa("hunter2"));
  });
});
