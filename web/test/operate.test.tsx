// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { clusterApi, failure } from "./cluster.ts";
import { type Answers, serviceDocument } from "./hub.ts";
import { open as openPage } from "./open.tsx";
import { type FakeObject, type FakeReach, kinds, object, type Request, reachApi } from "./reach.ts";
import { expectAccessible } from "./render.tsx";

// What people do to a workload while something is wrong. The fake cluster refuses a version that is too old, as an API
// server does.

const restartedAt = "kubectl.kubernetes.io/restartedAt";
const managed = (manager: string, fieldsV1: object, time = "2026-11-28T10:00:00Z") => ({ manager, time, fieldsV1 });

/** A deployment of two pods, with its scale, and what a cluster does with patches of both. */
function workload(change: Partial<FakeObject> = {}, metadata: object = {}) {
  const state = { version: 41, replicas: 2, restarted: "", managers: (metadata as FakeObject).managedFields ?? [] };
  const current = () =>
    object(
      "cart",
      {
        apiVersion: "apps/v1",
        kind: "Deployment",
        spec: {
          replicas: state.replicas,
          template: { metadata: { ...(state.restarted && { annotations: { [restartedAt]: state.restarted } }) } },
        },
        ...change,
      },
      { ...metadata, resourceVersion: String(state.version), managedFields: state.managers },
    );
  const answer = ({ method, url, body }: Request): Response | undefined => {
    const at = url.pathname;
    if (!/\/deployments\/cart(\/scale)?$/.test(at)) return undefined;
    if (method === "PATCH") {
      const { metadata, spec } = body as { metadata: { resourceVersion: string }; spec: { replicas?: number } };
      if (metadata.resourceVersion !== String(state.version)) return failure(409, "the object has been modified");
      if (!url.searchParams.has("dryRun")) {
        state.version += 1;
        if (spec.replicas !== undefined) state.replicas = spec.replicas;
      }
    }
    const { metadata: own } = current();
    return Response.json(at.endsWith("/scale") ? { metadata: own, spec: { replicas: state.replicas } } : current());
  };
  return { state, answer };
}

const allowed: Partial<Answers> = { fleet: { reviewAccess: () => ({ allowed: true, reason: "" }) } };

function open(change: Partial<FakeReach>, path = "apps/v1/deployments/shop/cart", answers = allowed) {
  const api = reachApi(change);
  return { ...openPage(`/clusters/berlin/resources/${path}`, { kube: api.kube, ...answers }), api };
}

/** Only a hang reaches this. */
const polling = { timeout: 60_000 };
const dialog = page.getByRole("dialog");
const button = (name: string) => page.getByRole("button", { name, exact: true });
const confirm = (name: string) => dialog.getByRole("button", { name, exact: true });
const sent = (requests: readonly Request[], method: string, end: string) =>
  requests.filter((each) => each.method === method && each.url.pathname.endsWith(end));

describe("a restart", () => {
  test("is tried first, and sets what kubectl sets", async () => {
    const { answer } = workload();
    const { api } = open({ before: answer });
    await button("Restart").click();
    await expect.element(dialog.getByText(/^The cluster would restart it/)).toBeVisible();
    await expect
      .element(dialog.getByText("kubectl --context leat-berlin -n shop rollout restart deployments.apps/cart"))
      .toBeVisible();
    await expectAccessible();
    await confirm("Restart").click();
    await expect.element(page.getByText("cart restarts.")).toBeVisible();
    await expect.element(dialog).not.toBeInTheDocument();
    const patches = sent(api.requests, "PATCH", "/cart");
    expect(patches.map(({ url }) => Object.fromEntries(url.searchParams))).toEqual([
      { fieldManager: "leat-ui", fieldValidation: "Strict", dryRun: "All" },
      { fieldManager: "leat-ui", fieldValidation: "Strict" },
    ]);
    expect(patches.every(({ type }) => type === "application/merge-patch+json")).toBe(true);
    expect(patches[1]?.body).toEqual({
      metadata: { resourceVersion: "41" },
      spec: {
        template: { metadata: { annotations: { [restartedAt]: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]+Z$/) } } },
      },
    });
  });

  test("goes on while the status changes, and stops if somebody else has restarted it", async () => {
    const { state, answer } = workload();
    const { api } = open({ before: answer });
    await button("Restart").click();
    await expect.element(dialog.getByText(/^The cluster would restart it/)).toBeVisible();
    state.version += 3;
    state.restarted = "2026-11-28T12:00:00Z";
    state.managers = [
      managed("kubectl-rollout", {
        "f:spec": { "f:template": { "f:metadata": { "f:annotations": { [`f:${restartedAt}`]: {} } } } },
      }),
    ];
    await confirm("Restart").click();
    await expect
      .element(dialog.getByText(/^kubectl-rollout has set it to 2026-11-28T12:00:00Z while you looked/))
      .toBeVisible();
    expect(sent(api.requests, "PATCH", "/cart").filter(({ url }) => !url.searchParams.has("dryRun"))).toHaveLength(1);
    expect(state.version).toBe(44);
  });

  test("of a deployment that is paused is refused, as kubectl refuses it", async () => {
    const { answer } = workload({ spec: { paused: true } });
    open({ before: answer });
    await button("Restart").click();
    await expect.element(dialog.getByText(/^It is paused/).first()).toBeVisible();
    await expect.element(confirm("Restart")).toHaveAttribute("aria-disabled", "true");
  });
});

describe("a scale", () => {
  test("is from the number that was seen, and a new version alone refuses nothing", async () => {
    const { state, answer } = workload();
    const { api } = open({ before: answer });
    await button("Scale").click();
    await expect.element(dialog.getByText("Set to 2 now.")).toBeVisible();
    await expect.element(confirm("Scale")).toHaveAttribute("aria-disabled", "true");
    await dialog.getByLabelText("How many pods").fill("0");
    await expect.element(dialog.getByText(/^All of its pods go/)).toBeVisible();
    await dialog.getByLabelText("How many pods").fill("5");
    await expect.element(dialog.getByText(/^The cluster would do this/)).toBeVisible();
    await expect
      .element(
        dialog.getByText(
          "kubectl --context leat-berlin -n shop scale deployments.apps/cart --replicas=5 --current-replicas=2",
        ),
      )
      .toBeVisible();
    await expectAccessible();
    state.version += 1;
    await confirm("Scale").click();
    await expect.element(page.getByText("cart is scaled.")).toBeVisible();
    expect(state.replicas).toBe(5);
    const last = sent(api.requests, "PATCH", "/cart/scale").at(-1);
    expect(last?.body).toEqual({ metadata: { resourceVersion: "42" }, spec: { replicas: 5 } });
    expect(last?.url.searchParams.get("fieldManager")).toBe("leat-ui");
  });

  test("that somebody else was quicker with changes nothing, and says who that was", async () => {
    const { state, answer } = workload();
    open({ before: answer });
    await button("Scale").click();
    await dialog.getByLabelText("How many pods").fill("5");
    await expect.element(dialog.getByText(/^The cluster would do this/)).toBeVisible();
    Object.assign(state, { version: 50, replicas: 9 });
    state.managers = [
      managed("kubectl-scale", { "f:spec": { "f:replicas": {} } }, "2026-11-28T12:00:00Z"),
      managed("leat", { "f:spec": { "f:replicas": {} } }),
    ];
    await confirm("Scale").click();
    await expect.element(dialog.getByText(/^kubectl-scale has set it to 9 while you looked/)).toBeVisible();
    expect(state.replicas).toBe(9);
  });

  test("says that Leat's agent and an autoscaler would undo it", async () => {
    const { answer } = workload(
      {},
      {
        labels: { "leat.dev/service": "shop" },
        managedFields: [managed("leat", { "f:spec": { "f:replicas": {} } })],
      },
    );
    const target = (name: string) => ({ kind: "Deployment", apiVersion: "apps/v1", name });
    open({
      before: (request) =>
        request.url.pathname.endsWith("/horizontalpodautoscalers")
          ? Response.json({
              items: [
                { metadata: { name: "cart-by-cpu" }, spec: { scaleTargetRef: target("cart") } },
                { metadata: { name: "other" }, spec: { scaleTargetRef: target("other") } },
              ],
            })
          : answer(request),
    });
    await button("Scale").click();
    await expect
      .element(dialog.getByText(/Leat's service shop sets this field, so Leat's agent puts it/))
      .toBeVisible();
    await expect.element(dialog.getByText(/sets how many pods there are: cart-by-cpu\./)).toBeVisible();
    await expectAccessible();
  });

  test("is offered of a kind that discovery has a scale of, and of no other", async () => {
    const widget = object("one", { apiVersion: "example.com/v1beta1", kind: "Widget" });
    open({ objects: [widget] }, "example.com/v1beta1/widgets/shop/one");
    await expect.element(button("Delete")).not.toHaveAttribute("aria-disabled");
    await expect.element(button("Scale")).not.toBeInTheDocument();
    await expect.element(button("Restart")).not.toBeInTheDocument();
  });

  test("of a kind of the cluster's own is by its scale", async () => {
    const widget = object("one", { apiVersion: "example.com/v1beta1", kind: "Widget" });
    const scalable = kinds.map((each) => (each.kind === "Widget" ? { ...each, subresources: ["scale"] } : each));
    open(
      {
        kinds: scalable,
        objects: [widget],
        before: ({ url }) =>
          url.pathname.endsWith("/one/scale")
            ? Response.json({ metadata: { uid: "u", resourceVersion: "7" }, spec: { replicas: 3 } })
            : undefined,
      },
      "example.com/v1beta1/widgets/shop/one",
    );
    await button("Scale").click();
    await expect.element(dialog.getByText("Set to 3 now.")).toBeVisible();
  });
});

describe("an eviction", () => {
  const kindsWithPods = [...kinds, { group: "", version: "v1", resource: "pods", kind: "Pod" }];
  const pod = object("cart-1", { kind: "Pod" }, { ownerReferences: [{ kind: "ReplicaSet", name: "cart", uid: "r" }] });
  const at = "core/v1/pods/shop/cart-1";
  const evictions = (before: (request: Request) => Response) => ({
    kinds: kindsWithPods,
    objects: [pod],
    before: (request: Request) => (request.url.pathname.endsWith("/eviction") ? before(request) : undefined),
  });

  test("is tried first, and is of this pod and no other of its name", async () => {
    const { api } = open(
      evictions(() => Response.json({ kind: "Status", status: "Success" }, { status: 201 })),
      at,
    );
    await button("Evict").click();
    await expect.element(dialog.getByText(/^The cluster would evict it/)).toBeVisible();
    await expect
      .element(dialog.getByText(/create --raw \/api\/v1\/namespaces\/shop\/pods\/cart-1\/eviction -f -$/).first())
      .toBeVisible();
    await expectAccessible();
    await confirm("Evict").click();
    await expect.element(page.getByText("cart-1 is being evicted.")).toBeVisible();
    const eviction = {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name: "cart-1", namespace: "shop" },
      deleteOptions: { preconditions: { uid: "uid-cart-1" } },
    };
    expect(sent(api.requests, "POST", "/eviction").map(({ url, body }) => [url.search, body])).toEqual([
      ["?dryRun=All", { ...eviction, deleteOptions: { ...eviction.deleteOptions, dryRun: ["All"] } }],
      ["", eviction],
    ]);
  });

  test("that a budget does not allow says which", async () => {
    open(
      evictions(() =>
        Response.json(
          {
            kind: "Status",
            code: 429,
            message: "Cannot evict pod as it would violate the pod's disruption budget.",
            details: {
              causes: [
                { reason: "DisruptionBudget", message: "The disruption budget cart needs 2 healthy pods and has 2" },
              ],
            },
          },
          { status: 429, headers: { "Leat-Error-Origin": "cluster" } },
        ),
      ),
      at,
    );
    await button("Evict").click();
    await expect
      .element(
        dialog.getByRole("alert").getByText(/does not allow the eviction now. The disruption budget cart needs 2/),
      )
      .toBeVisible();
    await expect.element(confirm("Evict")).toHaveAttribute("aria-disabled", "true");
    await expectAccessible();
  });
});

test("what the hub or the cluster would refuse is not offered, in their words", async () => {
  const asked: string[] = [];
  open(
    {
      objects: [object("cart", { apiVersion: "apps/v1", kind: "Deployment" })],
      before: ({ url, body }) => {
        if (!url.pathname.endsWith("/selfsubjectaccessreviews")) return undefined;
        const { subresource } = (body as { spec: { resourceAttributes: { subresource?: string } } }).spec
          .resourceAttributes;
        return Response.json({ status: { allowed: subresource !== "scale", reason: "no role of ada has it" } });
      },
    },
    undefined,
    {
      fleet: {
        reviewAccess: ({ attributes }) => {
          asked.push(`${attributes?.verb} ${attributes?.resource}`);
          const isAllowed = attributes?.resource !== "deployments" || attributes.verb !== "patch";
          return { allowed: isAllowed, reason: isAllowed ? "" : "no binding lets ada patch" };
        },
      },
    },
  );
  await expect.element(button("Restart")).toHaveAccessibleDescription("You may not do this: no binding lets ada patch");
  await expect.element(button("Scale")).toHaveAccessibleDescription("You may not do this: no role of ada has it");
  await expect.poll(() => asked, polling).toContain("patch deployments/scale");
});

test("a service's objects offer the same in their rows, by the keyboard too", async () => {
  const { kube } = clusterApi({
    pods: [{ name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9", status: "CrashLoopBackOff", ready: "0/1" }],
    deployments: ["cart"],
    before: (url) =>
      url.pathname.endsWith("/selfsubjectaccessreviews") ? Response.json({ status: { allowed: true } }) : undefined,
  });
  openPage("/services/cart@berlin?tab=objects", {
    fleet: { ...allowed.fleet, get: () => ({ document: serviceDocument() }) },
    agent: {
      getInventory: () => ({
        objects: [
          {
            ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "cart" },
            health: Health.DEGRADED,
          },
        ],
        nextPageToken: "",
      }),
    },
    kube,
  });
  await expect.element(button("Evict cart-7d4b9-aaaaa")).toBeVisible();
  await expect.element(button("Scale cart")).toHaveAttribute("tabindex", "0");
  await expect.element(button("Evict cart-7d4b9-aaaaa")).toHaveAttribute("tabindex", "-1");
  await button("Restart cart").click();
  await expect.element(page.getByRole("dialog", { name: "Restart cart?" })).toBeVisible();
  await dialog.getByText(/^New pods replace/).click();
  // A click in the dialog is none in the row, which would fold.
  await confirm("Cancel").click();
  await expect.element(button("Evict cart-7d4b9-aaaaa")).toBeVisible();
});
