// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { failure, offline } from "./cluster.ts";
import { open as openPage } from "./open.tsx";
import { changed, type FakeReach, kinds, object, reachApi } from "./reach.ts";
import { expectAccessible } from "./render.tsx";

function open(search: string, change: Partial<FakeReach> = {}) {
  const api = reachApi(change);
  return { ...openPage(`/clusters/berlin/resources${search}`, { kube: api.kube }), api };
}

const list = "?kind=configmaps";
const row = (name: RegExp) => page.getByRole("row", { name });
const many = (n: number) => Array.from({ length: n }, (_, index) => object(`map-${String(index).padStart(5, "0")}`));
const names = () =>
  page
    .getByRole("row")
    .elements()
    .slice(1)
    .map((each) => each.querySelector("[role=gridcell]")?.textContent);

describe("the kinds of a cluster", () => {
  test.each([
    ["aggregated", false, 2],
    ["group by group, as an older server has it", true, 6],
  ])("are found by their group, %s", async (_, isOlder, reads) => {
    const { router, api } = open("", { isOlder });
    await expect.element(page.getByRole("heading", { level: 2 }).first()).toHaveTextContent("Core");
    expect(
      page
        .getByRole("heading", { level: 2 })
        .elements()
        .map((each) => each.textContent),
    ).toEqual(["Core", "apps", "rbac.authorization.k8s.io", "example.com"]);
    // What cannot be listed is not offered.
    await expect.element(page.getByText("Binding")).not.toBeInTheDocument();
    expect(api.requests.filter(({ url }) => /^\/apis?(\/|$)/.test(url.pathname))).toHaveLength(reads);
    await userEvent.type(page.getByRole("textbox", { name: "Find a kind" }), "deploy{Enter}");
    await expect.element(page.getByText("1 of 6 kinds")).toBeVisible();
    expect(router.state.location.search).toEqual({ filter: "deploy" });
    await expectAccessible();
    await page.getByRole("link", { name: /^Deployment/ }).click();
    await expect.element(page.getByRole("heading", { level: 1 })).toHaveTextContent("Deployment");
    expect(router.state.location.search).toEqual({ kind: "deployments.apps" });
  });

  test("what the person may not list in the namespace is said and not offered", async () => {
    open("?namespace=shop", {
      before: ({ url }) =>
        url.pathname.endsWith("/selfsubjectrulesreviews")
          ? Response.json({
              status: { resourceRules: [{ verbs: ["list"], apiGroups: [""], resources: ["configmaps"] }] },
            })
          : undefined,
    });
    await expect.element(page.getByText("The cluster does not let you list secrets in shop.")).toBeInTheDocument();
    await expect.element(page.getByRole("link", { name: /^ConfigMap/ })).toBeVisible();
    await expect.element(page.getByRole("link", { name: /^Secret/ })).not.toBeInTheDocument();
    await expectAccessible();
  });

  test("a group that does not answer leaves the others", async () => {
    open("", {
      isOlder: true,
      before: ({ url }) => (url.pathname === "/apis/example.com/v1beta1" ? failure(503, "no endpoints") : undefined),
    });
    await expect.element(page.getByText(/do not answer, so their kinds are left out: example.com/)).toBeVisible();
    await expect.element(page.getByRole("link", { name: /^ConfigMap/ })).toBeVisible();
  });

  test("a cluster that is not connected says so", async () => {
    open("", { before: offline });
    await expect.element(page.getByRole("heading", { name: "The cluster is not connected" })).toBeVisible();
    await expectAccessible();
  });
});

describe("the objects of a kind", () => {
  test("are sorted, found by name, and follow a watch", async () => {
    const { router, api } = open(list);
    await expect.element(row(/cart/)).toBeVisible();
    expect(names()).toEqual(["cart", "web"]);
    const watch = await api.watching();
    const { searchParams } = watch.url;
    expect([searchParams.get("resourceVersion"), searchParams.get("allowWatchBookmarks")]).toEqual(["100", "true"]);
    expect(
      api.requests.every(({ accept, url }) => !url.pathname.endsWith("/configmaps") || accept.includes("as=Table")),
    ).toBe(true);

    watch.send(
      changed("ADDED", object("apple", { data: { a: "1", b: "2", c: "3" } })),
      changed("MODIFIED", object("cart", { data: {} })),
      changed("DELETED", object("web")),
    );
    await expect.element(row(/apple/)).toBeVisible();
    expect(names()).toEqual(["apple", "cart"]);
    await page.getByRole("button", { name: /^Data/ }).click();
    await expect.poll(names).toEqual(["cart", "apple"]);
    expect(router.state.location.search).toEqual({ kind: "configmaps", order: "Data" });
    await userEvent.type(page.getByRole("textbox", { name: "Find by name" }), "app{Enter}");
    await expect.poll(names).toEqual(["apple"]);
    await expect.element(page.getByText(/^1 found. 2 objects/)).toBeVisible();
    await expectAccessible();
  });

  test("are asked for by namespace and selectors, which the address has", async () => {
    const { router, api } = open(list, {
      objects: [object("cart"), object("shop", { kind: "Namespace" }, { namespace: undefined })],
    });
    await expect.element(row(/cart/)).toBeVisible();
    await page.getByLabelText("Namespace").selectOptions("shop");
    await userEvent.type(page.getByLabelText("Labels"), "app in (a,b)");
    await userEvent.type(page.getByLabelText("Fields"), "metadata.name=cart");
    await page.getByRole("button", { name: "Show" }).click();
    const asked = { namespace: "shop", labels: "app in (a,b)", fields: "metadata.name=cart" };
    await expect.poll(() => router.state.location.search).toEqual({ kind: "configmaps", ...asked });
    await expect
      .element(
        page.getByText(
          "kubectl --context leat-berlin get configmaps -n shop -l 'app in (a,b)' --field-selector metadata.name=cart",
        ),
      )
      .toBeVisible();
    const { url } = await api.watching();
    expect(url.pathname).toBe("/api/v1/namespaces/shop/configmaps");
    expect(url.searchParams.get("labelSelector")).toBe("app in (a,b)");
    expect(url.searchParams.get("fieldSelector")).toBe("metadata.name=cart");
  });

  test("are read in chunks up to a bound, and the page says how many it has", async () => {
    const { api } = open(list, { objects: many(6200) });
    await expect.element(page.getByText("The first 5,000 of 6,200 objects").first()).toBeVisible();
    const chunks = api.requests.filter(
      ({ url }) => url.pathname === "/api/v1/configmaps" && url.searchParams.has("limit"),
    );
    expect(chunks.map(({ url }) => url.searchParams.get("continue"))).toEqual([
      null,
      ...Array.from({ length: 9 }, (_, index) => String((index + 1) * 500)),
    ]);
    const watch = await api.watching();
    // Of what the page does not hold, it follows the number alone.
    watch.send(changed("ADDED", object("zebra")), changed("MODIFIED", object("map-06000")));
    await expect.element(page.getByText("The first 5,000 of 6,201 objects").first()).toBeVisible();
    expect(page.getByRole("row").elements().length).toBeLessThan(100);
    await expectAccessible();
  });

  test("begin again, and the page says so, if the cluster has forgotten the first chunk", async () => {
    let refused = 0;
    open(list, {
      objects: many(700),
      before: ({ url }) => {
        if (!url.searchParams.has("continue") || refused > 0) return undefined;
        refused += 1;
        return failure(410, "the provided continue parameter is too old");
      },
    });
    await expect.element(page.getByText(/^The list began again/)).toBeVisible();
    await expect.element(page.getByText(/^700 objects/)).toBeVisible();
  });

  test.each([
    ["as an event", true],
    ["as an answer", false],
  ])("are listed again if a watch is too old, %s", async (_, isEvent) => {
    const { api } = open(list, {
      before: ({ url }) =>
        !isEvent && url.searchParams.get("resourceVersion") === "105" ? failure(410, "too old") : undefined,
    });
    const watch = await api.watching();
    api.cluster.objects = [object("newer")];
    if (isEvent) watch.send({ type: "ERROR", object: { kind: "Status", code: 410, message: "too old" } });
    else {
      watch.send({ type: "BOOKMARK", object: { kind: "Table", metadata: { resourceVersion: "105" } } });
      watch.end();
    }
    await expect.element(row(/newer/)).toBeVisible();
    expect(names()).toEqual(["newer"]);
    expect((await api.watching()).url.searchParams.get("resourceVersion")).toBe("100");
  });

  test("a watch that ends goes on from its last bookmark, without another list", async () => {
    const { api } = open(list);
    const watch = await api.watching();
    const lists = () =>
      api.requests.filter(({ url }) => url.pathname.endsWith("/configmaps") && url.searchParams.has("limit"));
    expect(lists()).toHaveLength(1);
    watch.send({ type: "BOOKMARK", object: { kind: "Table", metadata: { resourceVersion: "140" } } });
    watch.end();
    expect((await api.watching()).url.searchParams.get("resourceVersion")).toBe("140");
    expect(lists()).toHaveLength(1);
  });

  test("a page that is left holds no watch", async () => {
    const { router, api } = open(list);
    const { signal } = await api.watching();
    const ended = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await router.navigate({ to: "/me" });
    await ended;
    expect(api.watches).toEqual([]);
  });

  test("a kind without a watch is read, and the page says so", async () => {
    const { api } = open("?kind=widgets.example.com", {
      objects: [object("one", { apiVersion: "example.com/v1beta1", kind: "Widget" })],
    });
    await expect.element(row(/one/)).toBeVisible();
    await expect.element(page.getByText(/does not report changes of this kind/)).toBeVisible();
    expect(api.watches).toEqual([]);
  });

  test("who may not list is told by whom, and where it may work", async () => {
    open(list, {
      before: ({ url }) =>
        url.pathname.endsWith("/configmaps") ? failure(403, 'User "ada" cannot list resource "configmaps"') : undefined,
    });
    await expect.element(page.getByText('User "ada" cannot list resource "configmaps"')).toBeVisible();
    await expect.element(page.getByText(/choose one above/)).toBeVisible();
    await expect.element(page.getByText("leat access berlin")).toBeVisible();
    await expectAccessible();
  });

  test("a kind that vanishes is said to be gone", async () => {
    const { api } = open(list);
    const watch = await api.watching();
    api.cluster.kinds = kinds.filter(({ resource }) => resource !== "configmaps");
    watch.send({ type: "ERROR", object: { kind: "Status", code: 410 } });
    await expect.element(page.getByRole("heading", { name: "The cluster has no such kind" })).toBeVisible();
    await expectAccessible();
  });

  test("nothing that a cluster writes is more than text", async () => {
    const evil = `<img src=x onerror=alert(1)>\u202egnp.exe\u200b`;
    const of = [
      {
        group: "",
        version: "v1",
        resource: "configmaps",
        kind: "ConfigMap",
        columns: [{ name: `Data ${evil}` }, { name: "Huge" }],
        cells: () => [{ markup: evil }, evil.repeat(30_000)],
      },
    ];
    const { api } = open(list, { kinds: of, objects: [object(`cart${evil}`)] });
    await expect.element(page.getByText("U+202E").first()).toBeVisible();
    const watch = await api.watching();
    watch.send(changed("ADDED", object(`apple${evil}`), "101", of));
    await expect.element(row(/apple/)).toBeVisible();
    expect(document.querySelector("#app img")).toBeNull();
    expect(document.querySelector("#app")?.textContent?.length).toBeLessThan(20_000);
    await expectAccessible();
  });
});
