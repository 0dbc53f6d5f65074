// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { page } from "vitest/browser";
import { DiffAction } from "../src/gen/leat/agent/v1/agent_pb";
import { ago } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const ref = (kind: string, name: string) => ({ group: "apps", version: "v1", kind, namespace: "shop", name });
const leat = { name: "leat", operation: "Apply", time: ago(60) };
const edit = { name: "kubectl-edit", operation: "Update", time: ago(9) };
const ours = { path: ".spec.a", before: "1", after: "2", managers: [leat] };
const objects = [
  {
    ref: ref("Deployment", "cart"),
    action: DiffAction.UPDATE,
    unified: "@@ -6,3 +6,3 @@\n spec:\n-  replicas: 9\n+  replicas: 3\n   selector: {}\n",
    fields: [
      { path: ".spec.replicas", before: "9", after: "3", managers: [edit], isTaken: true },
      {
        path: '.spec.template.spec.containers[name="web"].image',
        before: "shop/cart:1.4.6",
        after: "shop/cart:1.4.7",
        managers: [leat],
      },
      { path: ".spec.paused", before: "true", managers: [] },
    ],
    fieldsOmitted: 2,
    ignored: [
      { path: ".spec.minReadySeconds", before: "5", after: "1", managers: [edit], rule: "/spec/minReadySeconds" },
    ],
  },
  { ref: ref("Deployment", "web"), action: DiffAction.UPDATE, unified: "@@ -1 +1 @@\n-a: 1\n+a: 2\n", fields: [] },
];
const unchanged = [
  {
    ref: ref("Deployment", "search"),
    ignored: [{ path: ".spec.replicas", before: "7", after: "2", managers: [{ name: "hpa" }], rule: "/spec/replicas" }],
  },
];
const path = "/services/cart@berlin?tab=diff";
const agent = { agent: { diff: () => ({ objects, unchanged }) } };

test("each field has who manages it now, and whether a run takes it", async () => {
  open(`${path}&object=apps%2FDeployment%2Fshop%2Fcart`, agent);
  await expect.element(page.getByText("1 field managed by kubectl-edit")).toBeVisible();
  await expect
    .element(
      page.getByRole("row", { name: /^\.spec\.replicas 9 3 kubectl-edit Update 9 min ago A run takes it over$/ }),
    )
    .toBeVisible();
  await expect.element(page.getByRole("row", { name: /^\.spec\.paused true not there nobody/ })).toBeVisible();
  await expect
    .element(page.getByRole("row", { name: /^\.spec\.minReadySeconds 5 1 .*\/spec\/minReadySeconds$/ }))
    .toBeVisible();
  await expect.element(page.getByText("2 more fields are not listed.")).toBeVisible();
  await expect.element(page.getByText("+ replicas: 3")).toBeVisible();
  await expectAccessible();
});

test("only what others manage is one press, and the address says so", async () => {
  const { router } = open(`${path}&object=apps%2FDeployment%2Fshop%2Fcart`, agent);
  await expect.element(page.getByRole("button", { name: /Deployment web/ })).toBeVisible();
  await page.getByRole("checkbox", { name: "Only what others manage" }).click();
  await expect.poll(() => router.state.location.search).toMatchObject({ tab: "diff", others: true });
  await expect.element(page.getByRole("button", { name: /Deployment web/ })).not.toBeInTheDocument();
  await expect.element(page.getByText(".spec.paused")).not.toBeInTheDocument();
  await expect.element(page.getByRole("row", { name: /^\.spec\.replicas 9 3/ })).toBeVisible();
});

test("objects that differ only in what is ignored are named, with the rule", async () => {
  open(path, agent);
  await expect.element(page.getByRole("heading", { name: "Differ only in what is ignored" })).toBeVisible();
  await page.getByRole("button", { name: /^Unchanged Deployment search/ }).click();
  await expect.element(page.getByRole("row", { name: ".spec.replicas 7 2 hpa /spec/replicas" })).toBeVisible();
  await expect.element(page.getByText("There is no comparison of this object.")).not.toBeInTheDocument();
  await expectAccessible();
});

test("an agent that reports no fields has neither a table nor a filter, also by a link", async () => {
  open(`${path}&others=true&object=apps%2FDeployment%2Fshop%2Fweb`, {
    agent: { diff: () => ({ objects: [objects[1] ?? {}] }) },
  });
  await expect.element(page.getByText("+a: 2")).toBeVisible();
  await expect.element(page.getByRole("table")).not.toBeInTheDocument();
  await expect.element(page.getByRole("checkbox", { name: "Only what others manage" })).not.toBeInTheDocument();
});

test("nothing of others is said, and is no empty list", async () => {
  const own = objects.map((each) => ({ ...each, fields: [ours], fieldsOmitted: 0 }));
  open(`${path}&others=true`, { agent: { diff: () => ({ objects: own }) } });
  await expect.element(page.getByText("Nobody else manages a field that would change")).toBeVisible();
  await expect.element(page.getByRole("button", { name: /Deployment/ })).not.toBeInTheDocument();
  await expectAccessible();
});

test("what may be of others stays: fields that are not listed, and a refusal", async () => {
  const own = { ref: ref("Deployment", "own"), action: DiffAction.UPDATE, fields: [ours] };
  const beyond = { ref: ref("Deployment", "beyond"), action: DiffAction.UPDATE, fieldsOmitted: 150 };
  const refused = { ref: ref("Deployment", "refused"), action: DiffAction.REFUSE, problem: { message: "conflict" } };
  open(`${path}&others=true&object=apps%2FDeployment%2Fshop%2Fbeyond`, {
    agent: { diff: () => ({ objects: [own, beyond, refused] }) },
  });
  await expect.element(page.getByText("150 more fields are not listed.")).toBeVisible();
  await expect.element(page.getByRole("button", { name: /Deployment refused/ })).toBeVisible();
  await expect.element(page.getByRole("button", { name: /Deployment own/ })).not.toBeInTheDocument();
  await expect.element(page.getByText("Nobody else manages a field that would change")).not.toBeInTheDocument();
});

test("what a cluster writes is text, and what nobody sees in it is shown", async () => {
  const evil = { name: "<b>admin</b>\u202egpj", operation: "Up\u200bdate" };
  const field = { path: ".spec[\u2066]", before: "<img src=x onerror=alert(1)>", after: "\u202eb", managers: [evil] };
  const one = { ref: ref("Deployment", "cart"), action: DiffAction.UPDATE, fields: [field], ignored: [field] };
  open(`${path}&object=apps%2FDeployment%2Fshop%2Fcart`, { agent: { diff: () => ({ objects: [one] }) } });
  await expect.element(page.getByText("1 field managed by <b>admin</b>U+202Egpj")).toBeVisible();
  const name = ".spec[U+2066] <img src=x onerror=alert(1)> U+202Eb <b>admin</b>U+202Egpj UpU+200Bdate";
  await expect.element(page.getByRole("row", { name }).first()).toBeVisible();
  expect(document.body.textContent).not.toMatch(/[\u200b\u202e\u2066]/);
  expect(document.querySelector("td b, td img")).toBeNull();
});

test("what a cluster sends is bounded", async () => {
  const managers = Array.from({ length: 20 }, (_, index) => ({ name: `${index}${"m".repeat(10_000)}` }));
  const field = { path: "p".repeat(5000), before: "b".repeat(5000), managers };
  const many = [
    {
      ...objects[0],
      fields: [field, ...Array(9_999).fill({ path: ".spec.a", before: "b".repeat(5000) })],
      fieldsOmitted: 0,
      ignored: [],
    },
  ];
  open(`${path}&object=apps%2FDeployment%2Fshop%2Fcart`, { agent: { diff: () => ({ objects: many }) } });
  await expect.element(page.getByText("9,800 more fields are not listed.")).toBeVisible();
  await expect.element(page.getByText(/^1 field managed by 0m+…, 1m+…, 2m+…, and 7 others$/)).toBeVisible();
  expect(page.getByRole("row").elements()).toHaveLength(201);
  expect(document.body.textContent?.length).toBeLessThan(200_000);
});
