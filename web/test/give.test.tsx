// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { page } from "vitest/browser";
import { ApplyMode, type ApplyRequest } from "../src/gen/leat/fleet/v1/document_pb";
import { AccessRole } from "../src/gen/leat/type/v1/access_pb";
import { refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const button = (name: string) => page.getByRole("button", { name, exact: true });
const field = (name: string) => page.getByRole("dialog").getByLabelText(name, { exact: true });
const give = () => page.getByRole("dialog").getByRole("button", { name: "Give", exact: true });

test("access is given for a day, with a reason, as the command beside it would", async () => {
  const applied: [ApplyRequest, string | null][] = [];
  const from = Date.now();
  open("/access?cluster=berlin&user=ada&namespace=shop", {
    fleet: {
      reviewAccess: () => ({ allowed: true }),
      apply: (request, { requestHeader }) => {
        applied.push([request, requestHeader.get("Leat-Reason")]);
        return {};
      },
    },
  });
  await button("Give access").click();
  await expect.element(field("People")).toHaveValue("ada");
  await expect.element(field("Clusters")).toHaveValue("berlin");
  await field("People").fill("ada, grace");
  await field("Role").selectOptions("operator");
  await page.getByRole("textbox", { name: "Reason (optional)" }).fill("on call");
  const tail = "--role operator --cluster berlin -n shop --expires 24h --reason 'on call'";
  const name = String.raw`ada-grace-berlin-\w+`;
  const command = new RegExp(`^leat create accessbinding ${name} --for-user ada --for-user grace ${tail}$`);
  await expect.element(page.getByText(command)).toBeVisible();
  await expectAccessible();
  await give().click();
  await expect.element(page.getByText(/^The binding ada-grace-berlin-\w+ gives it now/)).toBeVisible();
  await expect.element(page.getByRole("dialog")).not.toBeInTheDocument();
  const [[request, reason] = []] = applied;
  expect(reason).toBe("on%20call");
  expect(request?.mode).toBe(ApplyMode.CREATE);
  const object = request?.documents[0]?.object;
  if (object?.case !== "accessBinding") throw new Error("no binding was applied");
  const { users, groups, clusters, role, rules, expireTime } = object.value.spec ?? {};
  expect({ users, groups, names: clusters?.names, all: clusters?.all, role }).toEqual({
    users: ["ada", "grace"],
    groups: [],
    names: ["berlin"],
    all: false,
    role: AccessRole.OPERATOR,
  });
  expect(rules?.map(({ namespaces, verbs }) => ({ namespaces, verbs }))).toEqual([{ namespaces: ["shop"], verbs: [] }]);
  const life = (expireTime ? timestampMs(expireTime) : 0) - from;
  expect(life).toBeGreaterThanOrEqual(24 * 3_600_000);
  expect(
    timestampMs(expireTime ?? { seconds: 0n, nanos: 0, $typeName: "google.protobuf.Timestamp" }),
  ).toBeLessThanOrEqual(Date.now() + 24 * 3_600_000);
});

test("what is missing is said before anything is sent", async () => {
  open("/access", { fleet: { reviewAccess: () => ({ allowed: true }) } });
  await button("Give access").click();
  await expect.element(give()).toHaveAttribute("title", "Name a person or a group first.");
  await field("Groups").fill("shop");
  await expect.element(give()).toHaveAttribute("title", "Name a cluster first.");
  await field("Clusters").fill(Array.from({ length: 257 }, (_, n) => `c${n}`).join(","));
  await expect.element(give()).toHaveAttribute("title", "One binding has at most 256 names.");
  await field("Clusters").fill("berlin");
  await field("For").selectOptions("0");
  await expect.element(give()).not.toHaveAttribute("aria-disabled");
  await expect
    .element(page.getByText(/^leat create .* --for-group shop --role viewer --cluster berlin$/))
    .toBeVisible();
});

test("a refusal of the hub is said, and what was written stays", async () => {
  open("/access?cluster=berlin&user=ada", {
    fleet: {
      reviewAccess: () => ({ allowed: true }),
      apply: () => {
        throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "you do not hold admin in berlin");
      },
    },
  });
  await button("Give access").click();
  await field("Role").selectOptions("admin");
  await give().click();
  await expect.element(page.getByRole("alert").getByText("you do not hold admin in berlin")).toBeVisible();
  await expect.element(field("Role")).toHaveValue("admin");
});

test("who may not give access is told so, with the hub's words, before they try", async () => {
  open("/access", {
    fleet: {
      reviewAccess: ({ attributes }) =>
        attributes?.resource === "accessbindings"
          ? { allowed: false, reason: "no binding gives ada the permission" }
          : { allowed: true },
    },
  });
  await expect
    .element(button("Give access"))
    .toHaveAttribute("title", "You may not give access. The hub says: no binding gives ada the permission");
});
