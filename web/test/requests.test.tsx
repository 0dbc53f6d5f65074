// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { page } from "vitest/browser";
import {
  type AccessRequestSchema,
  AccessRequestState,
  type CreateAccessRequestRequest,
} from "../src/gen/leat/fleet/v1/access_request_pb";
import { DocumentSchema } from "../src/gen/leat/fleet/v1/document_pb";
import { AccessRole } from "../src/gen/leat/type/v1/access_pb";
import { ago, refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const button = (name: string) => page.getByRole("button", { name, exact: true });
const dialog = () => page.getByRole("dialog");
const field = (name: string) => dialog().getByLabelText(name, { exact: true });
const row = (text: string) => page.getByRole("row").filter({ hasText: text });

/** A request of a person, for the role operator in berlin. */
function requestOf(
  requester: string,
  name: string,
  status: MessageInitShape<typeof AccessRequestSchema>["status"] = {},
): MessageInitShape<typeof AccessRequestSchema> {
  return {
    metadata: { name, createTime: ago(3) },
    spec: {
      requester,
      role: AccessRole.OPERATOR,
      clusters: { names: ["berlin"] },
      duration: { seconds: 5400n },
      reason: `INC-42: web of ${requester} is down`,
    },
    status: { state: AccessRequestState.OPEN, ...status },
  };
}

/** Answers with requests until a test changes them. */
function seen(requests: () => MessageInitShape<typeof AccessRequestSchema>[]) {
  const documents = () =>
    requests().map((value) => create(DocumentSchema, { object: { case: "accessRequest", value } }));
  return { list: () => ({ documents: documents() }) };
}

test("access is requested for an hour, with the reason that people read", async () => {
  const asked: CreateAccessRequestRequest[] = [];
  open("/access?cluster=berlin&namespace=shop", {
    requests: {
      createAccessRequest: (request) => {
        asked.push(request);
        return { accessRequest: { metadata: { name: "access-abc" } } };
      },
    },
  });
  await button("Request access").click();
  await expect.element(field("Clusters")).toHaveValue("berlin");
  const send = dialog().getByRole("button", { name: "Request", exact: true });
  await expect.element(send).toHaveAttribute("title", "Write a reason first, which the people who decide read.");
  await field("Role").selectOptions("operator");
  await field("For").selectOptions("8");
  await field("Reason").fill("INC-42: web is down");
  const command =
    "leat access request --role operator --cluster berlin -n shop --for 8h --reason 'INC-42: web is down'";
  await expect.element(dialog().getByText(command)).toBeVisible();
  await expectAccessible();
  await send.click();
  await expect.element(page.getByText("Your request access-abc waits for a decision.")).toBeVisible();
  await expect.element(dialog()).not.toBeInTheDocument();
  const spec = asked[0]?.spec;
  expect({
    role: spec?.role,
    names: spec?.clusters?.names,
    namespaces: spec?.rules[0]?.namespaces,
    seconds: spec?.duration?.seconds,
    reason: spec?.reason,
  }).toEqual({
    role: AccessRole.OPERATOR,
    names: ["berlin"],
    namespaces: ["shop"],
    seconds: 28_800n,
    reason: "INC-42: web is down",
  });
});

test("requests of others are approved and denied, and one's own is withdrawn", async () => {
  const done: string[] = [];
  open("/access", {
    fleet: seen(() => [
      requestOf("ada", "access-own"),
      requestOf("grace", "access-other"),
      requestOf("linus", "access-done", {
        state: AccessRequestState.DENIED,
        decidedBy: "user:boss",
        word: "the incident is over",
      }),
    ]),
    requests: {
      approveAccessRequest: ({ name }) => {
        done.push(`approve ${name}`);
        return { accessRequest: { status: { binding: name } } };
      },
      denyAccessRequest: ({ name, word }) => {
        done.push(`deny ${name}: ${word}`);
        return {};
      },
      withdrawAccessRequest: ({ name }) => {
        done.push(`withdraw ${name}`);
        return {};
      },
    },
  });
  await expect.element(row("web of grace").getByText("1 h 30 min")).toBeVisible();
  await expect.element(row("web of linus").getByText("the incident is over")).toBeVisible();
  await expect.element(row("web of linus").getByRole("button")).not.toBeInTheDocument();
  await expect.element(row("web of ada").getByRole("button", { name: "Approve" })).not.toBeInTheDocument();
  await expectAccessible();

  await row("web of grace").getByRole("button", { name: "Approve" }).click();
  await expect
    .element(dialog().getByText("grace has the role operator in clusters berlin for 1 h 30 min from now on."))
    .toBeVisible();
  await expect.element(dialog().getByText("leat access approve access-other")).toBeVisible();
  await expectAccessible();
  await dialog().getByRole("button", { name: "Approve", exact: true }).click();
  await expect.element(page.getByText(/^The binding access-other gives it now/)).toBeVisible();

  await row("web of grace").getByRole("button", { name: "Deny" }).click();
  await field("Reason (optional)").fill("not now");
  await dialog().getByRole("button", { name: "Deny", exact: true }).click();
  await expect.element(page.getByText("The request of grace is denied.")).toBeVisible();

  await row("web of ada").getByRole("button", { name: "Withdraw" }).click();
  await dialog().getByRole("button", { name: "Withdraw", exact: true }).click();
  await expect.element(page.getByText("Your request is withdrawn.")).toBeVisible();
  expect(done).toEqual(["approve access-other", "deny access-other: not now", "withdraw access-own"]);
});

test("a refusal of the hub is said, and the dialog stays", async () => {
  open("/access", {
    fleet: seen(() => [requestOf("grace", "access-other")]),
    requests: {
      approveAccessRequest: () => {
        throw refusal(Code.FailedPrecondition, "ACCESS_REQUEST_CLOSED", "it is withdrawn");
      },
    },
  });
  await row("web of grace").getByRole("button", { name: "Approve" }).click();
  await dialog().getByRole("button", { name: "Approve", exact: true }).click();
  await expect.element(page.getByRole("alert").getByText("it is withdrawn")).toBeVisible();
  await expect.element(dialog()).toBeVisible();
});

test("without requests the page says so", async () => {
  open("/access");
  await expect.element(page.getByText("No requests of yours", { exact: false })).toBeVisible();
});
