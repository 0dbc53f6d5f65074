// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { clusterDocument } from "./hub.ts";
import { open as openPage } from "./open.tsx";
import { type FakeReach, object, type Request, reachApi } from "./reach.ts";
import { expectAccessible } from "./render.tsx";

function open(path: string, change: Partial<FakeReach> = {}) {
  const api = reachApi(change);
  return { ...openPage(`/clusters/berlin/resources/${path}`, { kube: api.kube }), api };
}

const at = "core/v1/configmaps/shop/cart";
const yaml = page.getByRole("textbox", { name: "YAML of cart" });
/** Only a hang reaches this. */
const polling = { timeout: 60_000 };
const shown = () => yaml.query()?.textContent;
const button = (name: string) => page.getByRole("button", { name });
const text = (words: string | RegExp) => page.getByText(words);
const cart = object(
  "cart",
  { data: { greeting: "hello", colour: "red" } },
  {
    labels: { "leat.dev/service": "cart" },
    managedFields: [
      { manager: "leat", operation: "Apply", fieldsV1: { "f:data": { "f:greeting": {}, "f:colour": {} } } },
    ],
  },
);
const edited = (data: object, name = "cart") =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n  namespace: shop\n  labels:\n    leat.dev/service: cart\ndata: ${JSON.stringify(data)}\n`;
const sent = (requests: readonly Request[], method: string) => requests.filter((each) => each.method === method);
const conflict = (...causes: [manager: string, field: string][]) =>
  Response.json(
    {
      kind: "Status",
      message: "Apply failed",
      code: 409,
      details: {
        causes: causes.map(([manager, field]) => ({
          reason: "FieldManagerConflict",
          message: `conflict with "${manager}" using v1`,
          field,
        })),
      },
    },
    { status: 409, headers: { "Leat-Error-Origin": "cluster" } },
  );

describe("an edit of an object", () => {
  test("is tried by a dry run, and what was seen is applied", async () => {
    const { api } = open(`${at}?tab=yaml`, {
      objects: [cart],
      before: ({ method, url }) => {
        if (method !== "PATCH") return undefined;
        const data = { greeting: "hello", colour: "blue" };
        const next = { ...cart, data };
        if (!url.searchParams.has("dryRun")) api.cluster.objects = [next];
        return Response.json(next);
      },
    });
    await expect.poll(shown, polling).toContain("colour: red");
    await button("Edit").click();
    await yaml.fill(edited({ greeting: "hello", colour: "blue" }));
    await expectAccessible();
    await button("See what changes").click();
    await expect.element(text("+ colour: blue")).toBeVisible();
    await expect.element(text("- colour: red")).toBeVisible();
    await expectAccessible();
    const [trial] = sent(api.requests, "PATCH");
    expect(Object.fromEntries(trial?.url.searchParams ?? [])).toEqual({
      fieldManager: "leat-ui",
      fieldValidation: "Strict",
      dryRun: "All",
    });
    expect(trial?.type).toBe("application/apply-patch+yaml");
    const fields = {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "cart", namespace: "shop", uid: "uid-cart" },
      data: { colour: "blue" },
    };
    expect(trial?.body).toEqual(fields);
    await button("Apply").click();
    await expect.poll(shown, polling).toContain("colour: blue");
    const [, applied] = sent(api.requests, "PATCH");
    expect(applied?.url.searchParams.has("dryRun")).toBe(false);
    expect(applied?.body).toEqual({ ...fields, metadata: { ...fields.metadata, resourceVersion: "41" } });
  });

  test("names who has set the fields, and takes them over only after that", async () => {
    const { api } = open(`${at}?tab=yaml`, {
      objects: [cart],
      before: ({ method, url }) =>
        method === "PATCH" && !url.searchParams.has("force")
          ? conflict(["leat", ".data.colour"], ["kubectl-edit", ".data.greeting"], ["leat", ".data.size"])
          : undefined,
    });
    await button("Edit").click();
    await yaml.fill(edited({ greeting: "hi", colour: "blue" }));
    await button("See what changes").click();
    await expect.element(page.getByRole("heading", { name: "leat (Leat's agent)" })).toBeVisible();
    await expect.element(page.getByRole("heading", { name: "kubectl-edit" })).toBeVisible();
    await expect.element(text("Leat's agent will put these fields back.")).toBeVisible();
    await expect.element(text(".data.size")).toBeVisible();
    // The manager's value and the new one are beside each field, before anybody takes it over.
    const values = () => [...document.querySelectorAll("dl dd")].map((each) => each.textContent);
    expect(values()).toEqual(["red", "blue", "no value", "no value", "hello", "hi"]);
    await expect.element(button("Apply")).not.toBeInTheDocument();
    await expectAccessible();
    await button("Take these fields over").click();
    await expect.element(text("+ colour: blue")).toBeVisible();
    expect(sent(api.requests, "PATCH").map(({ url }) => url.searchParams.get("force"))).toEqual([null, "true"]);
    expect(sent(api.requests, "PATCH").every(({ url }) => url.searchParams.get("dryRun") === "All")).toBe(true);
  });

  test("says which fields stay, because others own them", async () => {
    open(`${at}?tab=yaml`, { objects: [cart] });
    await button("Edit").click();
    await yaml.fill(edited({ greeting: "hello" }));
    await button("See what changes").click();
    await expect.element(text(".data.colour, set by leat")).toBeVisible();
  });

  test.each([
    ["is of another object", edited({}, "web"), /^The text names another object/],
    ["changes nothing", edited({ colour: "red", greeting: "hello" }), /^The text changes nothing/],
    ["is no YAML", "a: b: c", /^The text cannot be read/],
  ])("with a text that %s sends nothing", async (_, content, words) => {
    const { api } = open(`${at}?tab=yaml`, { objects: [cart] });
    await button("Edit").click();
    await yaml.fill(content);
    await button("See what changes").click();
    await expect.element(text(words)).toBeVisible();
    expect(sent(api.requests, "PATCH")).toEqual([]);
  });

  test("that came too late changes nothing, and says so", async () => {
    open(`${at}?tab=yaml`, {
      objects: [cart],
      before: ({ method, url }) =>
        method === "PATCH" && !url.searchParams.has("dryRun")
          ? Response.json({ kind: "Status", code: 409, message: "the object has been modified" }, { status: 409 })
          : undefined,
    });
    await button("Edit").click();
    await yaml.fill(edited({ greeting: "hello", colour: "blue" }));
    await button("See what changes").click();
    await button("Apply").click();
    await expect.element(text("It changed while you looked. See again what changes.")).toBeVisible();
  });

  test("is not offered to who may not, nor of a Secret", async () => {
    open(`${at}?tab=yaml`, {
      objects: [cart],
      before: ({ url }) =>
        url.pathname.endsWith("/selfsubjectaccessreviews")
          ? Response.json({ status: { allowed: false, reason: "no role of ada allows it" } })
          : undefined,
    });
    await expect.element(button("Edit")).toHaveAttribute("aria-disabled", "true");
    await expect
      .element(button("Edit"))
      .toHaveAccessibleDescription("The cluster does not let you patch it. No role of ada allows it");
    await expect.element(button("Delete")).toHaveAttribute("aria-disabled", "true");
  });

  test("of a Secret is left to the command line", async () => {
    open("core/v1/secrets/shop/login?tab=yaml", { objects: [object("login", { kind: "Secret" })] });
    await expect.element(button("Edit")).toHaveAttribute("aria-disabled", "true");
  });

  test("shows what deceives in a text as signs", async () => {
    open(`${at}?tab=yaml`, { objects: [object("cart", { data: { a: "\u202egnp.exe<img src=x>" } })] });
    await expect.poll(shown, polling).toContain("gnp.exe<img src=x>");
    expect(document.querySelector("#app .cm-specialChar")).not.toBeNull();
    expect(document.querySelector("#app .cm-content img:not(.cm-widgetBuffer)")).toBeNull();
  });
});

describe("a deletion", () => {
  const dialog = page.getByRole("dialog");
  const remove = dialog.getByRole("button", { name: "Delete", exact: true });

  test("is asked of the cluster first, and takes what the object owns as the person chooses", async () => {
    const { router, api } = open(at, { objects: [cart] });
    await button("Delete").click();
    await expect.element(dialog.getByText(/^The cluster would delete it/)).toBeVisible();
    await expect.element(dialog.getByText(/Leat's agent will create it again/)).toBeVisible();
    await dialog.getByLabelText("What it owns").selectOptions("Orphan");
    await expect.poll(() => sent(api.requests, "DELETE").length, polling).toBe(2);
    await expect.element(remove).not.toHaveAttribute("aria-disabled");
    await expectAccessible();
    await remove.click();
    await expect.element(page.getByRole("heading", { level: 1, name: "ConfigMap" })).toBeVisible();
    expect(router.state.location.search).toEqual({ kind: "configmaps", namespace: "shop" });
    const options = { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid: "uid-cart" } };
    expect(sent(api.requests, "DELETE").map(({ body }) => body)).toEqual([
      { ...options, propagationPolicy: "Background", dryRun: ["All"] },
      { ...options, propagationPolicy: "Orphan", dryRun: ["All"] },
      { ...options, propagationPolicy: "Orphan" },
    ]);
  });

  test("of a namespace needs its name", async () => {
    const { api } = open("core/v1/namespaces/_/shop", {
      objects: [object("shop", { kind: "Namespace" }, { namespace: undefined })],
    });
    await button("Delete").click();
    await expect.element(dialog.getByText(/^The cluster would delete it/)).toBeVisible();
    await expect.element(remove).toHaveAttribute("aria-disabled", "true");
    await dialog.getByLabelText("Type shop first").fill("shop");
    await expect.element(remove).not.toHaveAttribute("aria-disabled");
    expect(sent(api.requests, "DELETE")).toHaveLength(1);
  });

  test("in a protected cluster needs the name", async () => {
    const api = reachApi({ objects: [cart] });
    openPage(`/clusters/berlin/resources/${at}`, {
      kube: api.kube,
      fleet: {
        get: () => {
          const document = clusterDocument();
          if (document.object.case === "cluster" && document.object.value.metadata)
            document.object.value.metadata.labels["leat.dev/protected"] = "";
          return { document };
        },
      },
    });
    await button("Delete").click();
    await expect.element(dialog.getByLabelText("Type cart first")).toBeVisible();
    await expect.element(dialog.getByText(/^The cluster would delete it/)).toBeVisible();
    await expect.element(remove).toHaveAttribute("aria-disabled", "true");
  });

  test("that the cluster refuses is not offered", async () => {
    open(at, {
      objects: [cart],
      before: ({ method }) =>
        method === "DELETE"
          ? Response.json({ kind: "Status", code: 403, message: "a webhook denied it" }, { status: 403 })
          : undefined,
    });
    await button("Delete").click();
    await expect.element(dialog.getByRole("alert").getByText("a webhook denied it")).toBeVisible();
    await expect.element(remove).toHaveAttribute("aria-disabled", "true");
  });
});
