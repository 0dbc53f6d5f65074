// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { ConfigState, ExplainServiceConfigResponseSchema } from "../src/gen/leat/fleet/v1/config_backend_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { backendRow, governRows, setRow } from "./govern-objects.ts";
import { type Answers, ago, makeHub } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub({ objects: governRows, ...change });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const main = () => page.getByRole("main");
const grid = () => page.getByRole("grid");
const button = (name: string) => page.getByRole("button", { name, exact: true });

describe("configuration", () => {
  test("it has the sets, and beside them the back ends, those that fail first", async () => {
    const { router } = open("/configuration");
    await expect.element(grid().getByText("region-eu")).toBeVisible();
    await expectAccessible();
    await main().getByRole("link", { name: "Back ends", exact: true }).click();
    await expect.element(grid().getByText("vault-prod")).toBeVisible();
    const names = [...document.querySelectorAll('[role=row] a[href*="configuration/backends"]')].map(
      (link) => link.textContent,
    );
    expect(names).toEqual(["vault-test", "files", "vault-prod"]);
    expect(router.state.location.search).toEqual({ show: "backends" });
    await expectAccessible();
    await grid().getByText("vault-prod").click();
    await expect.poll(() => router.state.location.pathname).toBe("/configuration/backends/vault-prod");
  });

  test("a hub without any says what they are for", async () => {
    open("/configuration?show=backends", { objects: () => [] });
    await expect.element(page.getByText("No back end yet")).toBeVisible();
    await expectAccessible();
  });
});

describe("a set", () => {
  test("it has its keys in one order, and never a secret", async () => {
    const row = setRow("region-eu", {
      values: { DB_HOST: "db.eu.example" },
      // A hub leaves it empty. One that does not has it shown to nobody.
      secrets: { DB_PASSWORD: "hunter2" },
      references: { TOKEN: "vault-prod://shop/api#token" },
    });
    open("/configuration/sets/region-eu", { objects: () => [row] });
    await expect.element(main().getByText("db.eu.example")).toBeVisible();
    const keys = [...document.querySelectorAll("tbody td:first-child")].map((cell) => cell.textContent);
    expect(keys).toEqual(["DB_HOST", "DB_PASSWORD", "TOKEN"]);
    await expect.element(main().getByText("The hub never shows it")).toBeVisible();
    expect(document.body.textContent).not.toContain("hunter2");
    await expectAccessible();
  });

  test("a large one is shown in part, and says so", async () => {
    const values = Object.fromEntries(Array.from({ length: 700 }, (_, at) => [`KEY_${at}`, "x".repeat(2000)]));
    open("/configuration/sets/region-eu", { objects: () => [setRow("region-eu", { values })] });
    await expect.element(main().getByText("and 400 more")).toBeVisible();
    // The last one says how many more there are.
    expect(document.querySelectorAll("tbody")).toHaveLength(301);
    expect((document.body.textContent ?? "").length).toBeLessThan(500 * 600);
  });
});

describe("a back end", () => {
  test("it says what fails, where it is, and who may refer to it", async () => {
    open("/configuration/backends/vault-test");
    await expect.element(main().getByText("dial tcp 192.0.2.9:8200: i/o timeout", { exact: false })).toBeVisible();
    await expect.element(main().getByRole("link", { name: "vault.example:8200", exact: false })).toBeVisible();
    await expect.element(main().getByText("shop/**")).toBeVisible();
    await expectAccessible();
  });

  test("it is read again at once, which the hub counts", async () => {
    const asked: string[] = [];
    open("/configuration/backends/vault-prod", {
      fleet: {
        refreshConfigBackend: ({ name }) => {
          asked.push(name);
          return { entries: 14 };
        },
      },
    });
    await expect.element(button("Read again now")).not.toHaveAttribute("aria-disabled");
    await button("Read again now").click();
    await expect.element(page.getByText("The hub reads 14 paths again now.")).toBeVisible();
    expect(asked).toEqual(["vault-prod"]);
  });

  test("who may not is told why, and an address that is no link is none", async () => {
    const url = "javascript:alert(1)";
    const row = backendRow("odd", {}, { kind: { case: "http", value: { url } } }, { can: [] });
    open("/configuration/backends/odd", { objects: () => [row] });
    await expect
      .element(button("Read again now"))
      .toHaveAttribute("title", expect.stringContaining("No binding lets you refresh configbackends here."));
    await expect.element(main().getByText("javascript:alert(1)")).toBeVisible();
    expect(document.querySelectorAll("a[href^=javascript]")).toHaveLength(0);
    await expect.element(main().getByText("none, so no service can use it").first()).toBeVisible();
  });
});

describe("a service's configuration", () => {
  const explained = create(ExplainServiceConfigResponseSchema, {
    keys: [
      { key: "LOG_LEVEL", layer: "project", set: "defaults", state: ConfigState.CURRENT },
      {
        key: "DB_PASSWORD",
        layer: "set",
        set: "platform/database",
        reference: `hub://region-\${cluster.labels.region}/DB_PASSWORD`,
        resolvedReference: "vault-prod://shop/eu#password",
        through: ["region-eu"],
        secret: true,
        state: ConfigState.MISSING,
        problem: { reason: Reason.CONFIG_MISSING, message: "the back end has no such key" },
        readTime: ago(3),
      },
      {
        key: "REPLICAS",
        layer: "service",
        state: ConfigState.CURRENT,
        shadows: [{ layer: "project", set: "defaults" }],
      },
    ],
    heldBy: "shops",
    heldKeys: ["REPLICAS"],
  });

  test("what is missing comes first, with what sets each key", async () => {
    open("/services/cart@berlin?tab=config", { fleet: { explainServiceConfig: () => explained } });
    await expect.element(main().getByText("The back end has no such key")).toBeVisible();
    const keys = [...document.querySelectorAll("tbody tr:first-child td:first-child")].map((cell) => cell.textContent);
    expect(keys).toEqual(["DB_PASSWORDsecret", "LOG_LEVEL", "REPLICAS"]);
    await expect.element(main().getByText("Hides that of project defaults.")).toBeVisible();
    await expect.element(main().getByText("The rollout policy shops holds back a change of 1 key")).toBeVisible();
    expect(main().getByRole("link", { name: "platform/database" }).element().getAttribute("href")).toBe(
      "/ui/configuration/sets/platform/database",
    );
    await expectAccessible();
  });

  test("a service without any says where values come from", async () => {
    open("/services/cart@berlin?tab=config", { fleet: { explainServiceConfig: () => ({}) } });
    await expect.element(main().getByText("The service has no configuration.")).toBeVisible();
    await expectAccessible();
  });
});
