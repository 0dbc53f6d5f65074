// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { page } from "vitest/browser";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { refusal, repositoryDocument } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const button = page.getByRole("button", { name: "Fetch now" });

test("a fetch is one press, and the page asks again how fresh the mirror is", async () => {
  const asked: string[] = [];
  let gets = 0;
  open("/repositories/demo", {
    before: (call) => {
      if (call === "get") gets += 1;
    },
    fleet: {
      syncRepository: ({ name }) => {
        asked.push(name);
        return {};
      },
    },
  });
  await expect.element(button).not.toHaveAttribute("aria-disabled");
  const before = gets;
  await button.click();
  await expect.element(page.getByText("demo is as its upstream.")).toBeVisible();
  await expect.poll(() => gets).toBe(before + 1);
  expect(asked).toEqual(["demo"]);
  await expectAccessible();
});

test("an upstream that fails is said with its reason", async () => {
  open("/repositories/demo", {
    fleet: {
      syncRepository: () => ({ problem: { reason: Reason.UPSTREAM_UNREACHABLE, message: "no route to host" } }),
    },
  });
  await expect.element(button).not.toHaveAttribute("aria-disabled");
  await button.click();
  const alert = page.getByRole("alert");
  await expect.element(alert.getByText("It was not fetched: no route to host")).toBeVisible();
  await expect.element(alert.getByText("UPSTREAM_UNREACHABLE")).toBeVisible();
  await expectAccessible();
});

test("a refusal has the hub's words and its reason", async () => {
  open("/repositories/demo", {
    fleet: {
      syncRepository: () => {
        throw refusal(Code.ResourceExhausted, "RATE_LIMITED", "too many repositories are fetched");
      },
    },
  });
  await expect.element(button).not.toHaveAttribute("aria-disabled");
  await button.click();
  await expect.element(page.getByRole("alert").getByText("too many repositories are fetched")).toBeVisible();
  await expectAccessible();
});

test("what a person may not do is there, and says why", async () => {
  open("/repositories/demo", { can: ["get"] });
  await expect.element(button).toHaveAttribute("aria-disabled", "true");
  await expect.element(page.getByText("no binding of ada covers berlin", { exact: false }).first()).toBeInTheDocument();
});

test("a suspended repository is not fetched", async () => {
  const document = repositoryDocument();
  if (document.object.case === "repository" && document.object.value.spec) document.object.value.spec.suspended = true;
  open("/repositories/demo", {
    fleet: {
      get: () => ({ document }),
      watch: async function* () {
        yield { document };
        await new Promise(() => {});
      },
    },
  });
  await expect.element(button).toHaveAttribute("aria-disabled", "true");
  await expect.element(page.getByText("It is suspended: Leat does not fetch it.")).toBeInTheDocument();
});
