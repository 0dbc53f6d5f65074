// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import { type FleetRow, FleetRowSchema, GetFleetStatusResponseSchema } from "../src/gen/leat/fleet/v1/query_pb";
import { RevisionOutcome, type Service } from "../src/gen/leat/fleet/v1/resources_pb";
import { ServicePhase } from "../src/gen/leat/type/v1/state_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { text } from "../src/text/en.ts";
import { type Answers, ago, clusterDocument, makeHub, refusal, serviceDocument, serviceRow } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}

const heading = (name: string | RegExp) => page.getByRole("heading", { level: 1, name });
const denied = () => {
  throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "ada may not list services");
};

describe("problems", () => {
  test("it begins with what is wrong, grouped by cause, and leads to what is affected", async () => {
    const { router } = open("/");
    await expect.element(heading("6 problems need attention")).toBeVisible();
    await expect.element(page.getByText("48 services")).toBeVisible();
    await expect.element(page.getByText("Correct the manifest or the cluster's policy.")).toBeVisible();
    expect(document.title).toBe("Problems · Leat");
    await expectAccessible();
    await page.getByRole("link", { name: "Show all 48" }).click();
    await expect.element(heading("Services")).toBeVisible();
    expect(router.state.location.search).toEqual({ filter: "reason=APPLY_REJECTED" });
  });

  test("a fleet without problems is calm", async () => {
    open("/", {
      status: () =>
        create(GetFleetStatusResponseSchema, {
          services: [{ value: "HEALTHY", count: 3 }],
          clusters: [{ value: "CONNECTED", count: 2 }],
        }),
    });
    await expect.element(heading("All is well")).toBeVisible();
    await expect.element(page.getByText("3 services in 2 clusters.", { exact: false })).toBeVisible();
    await expectAccessible();
  });

  test("an empty hub says how to begin", async () => {
    open("/", { status: () => create(GetFleetStatusResponseSchema) });
    await expect.element(page.getByText("leat cluster create NAME -o kubernetes")).toBeVisible();
    await expectAccessible();
  });

  test("a hub that does not answer is tried again, and the person can hurry it", async () => {
    let isAway = true;
    open("/", {
      before: () => {
        if (isAway) throw new ConnectError("", Code.Unavailable);
      },
    });
    await expect.element(page.getByText("The hub does not answer")).toBeVisible();
    await expectAccessible();
    // In one step with the hub's return, or the page's own next try comes first.
    isAway = false;
    (page.getByRole("button", { name: "Try again" }).element() as HTMLElement).click();
    await expect.element(heading("6 problems need attention")).toBeVisible();
    await expect.element(page.getByText("Live")).toBeVisible();
  });

  test("a refusal has the hub's words and its advice, and offers no other try", async () => {
    open("/", { before: denied });
    await expect.element(page.getByText("ada may not list services")).toBeVisible();
    await expect.element(page.getByText("Ask an administrator of the hub for a binding.")).toBeVisible();
    expect(page.getByRole("button", { name: "Try again" }).elements()).toHaveLength(0);
    await expectAccessible();
  });

  test("a slow hub leaves a place for its answer", async () => {
    open("/", { before: () => new Promise(() => {}) });
    await expect.element(page.getByRole("main").getByText("Loading")).toBeInTheDocument();
    await expectAccessible();
  });
});

describe("lists", () => {
  test("what the hub can no longer confirm is not painted as new", async () => {
    open("/services", {
      before: (call) => {
        if (call === "watchQuery") throw new ConnectError("", Code.Unavailable);
      },
    });
    await expect.element(page.getByText("The connection to the hub is lost", { exact: false })).toBeVisible();
    await expect.element(page.getByText("Was failed").first()).toBeVisible();
    await expectAccessible();
  });

  test("ten thousand services are a window and a count", async () => {
    const { answers } = open("/services");
    await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
    await expect.element(page.getByRole("grid")).toHaveAttribute("aria-rowcount", "10001");
    expect(Math.max(...answers.queries.map((query) => query.size))).toBeLessThanOrEqual(200);
    await expectAccessible();
  });

  test("a service has the commit of its cluster, and the newest of its source", async () => {
    const [has, wanted] = ["4f2c".repeat(10), "d8d4".repeat(10)];
    const row = (index: number, commits: string[], appliedCommits: string[]) =>
      create(FleetRowSchema, { ...serviceRow(index), commits, appliedCommits } as FleetRow);
    // The hub has never read the first of two sources.
    const partly = create(FleetRowSchema, {
      ...row(6, [wanted], [has, wanted]),
      repositories: ["new", "demo"],
    } as FleetRow);
    const services = [row(0, [wanted], [has]), row(2, [wanted], []), row(4, [wanted], [wanted]), partly];
    open("/services", { objects: (kind) => (kind === "Service" ? services : undefined) });
    const cell = (index: number) => page.getByRole("row").nth(index + 1); // behind the titles
    await expect.element(cell(0).getByRole("link", { name: "4f2c4f2c" })).toBeVisible();
    await expect.element(cell(0).getByRole("img", { name: "the newest is" })).toBeVisible();
    await expect.element(cell(0).getByRole("link", { name: "d8d4d8d4" })).toBeVisible();
    await expect.element(cell(1).getByRole("img", { name: "the newest is" })).toBeVisible();
    await expect.element(cell(2).getByRole("link", { name: "d8d4d8d4" })).toBeVisible();
    await expect.element(cell(2).getByRole("img", { name: "the newest is" })).not.toBeInTheDocument();
    await expect.element(cell(3).getByText("4f2c4f2c")).toBeVisible();
    await expect.element(cell(3).getByRole("img", { name: "the newest is" })).not.toBeInTheDocument();
    await expectAccessible();
  });

  test("the last row is asked for when it comes into sight", async () => {
    const { answers } = open("/services");
    await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
    document.querySelector<HTMLElement>("[data-index]")?.focus();
    await userEvent.keyboard("{End}");
    await expect.element(page.getByText("search-9999")).toBeInTheDocument();
    expect(answers.queries.some((query) => query.offset > 9000)).toBe(true);
  });

  test("the address is the filter, and a phase is one press", async () => {
    const { router, answers } = open("/services?filter=name%3Dweb*&order=-since");
    await expect.element(page.getByRole("textbox", { name: "Filter services" })).toHaveValue("name=web*");
    await expect.element(page.getByText("leat get services --filter 'name=web*' --sort -since")).toBeVisible();
    await page.getByRole("button", { name: /^Failed/ }).click();
    await expect
      .poll(() => router.state.location.search)
      .toEqual({ filter: "name=web*", order: "-since", phase: "FAILED" });
    await expect.poll(() => answers.queries.map((query) => query.filter)).toContain("name=web* phase=FAILED");
    expect(answers.queries.at(-1)?.filter).toContain("name=web*");
  });

  test("typing filters once the person pauses", async () => {
    const { router } = open("/clusters");
    await page.getByRole("textbox", { name: "Filter clusters" }).fill("nothing");
    await expect.poll(() => router.state.location.search).toEqual({ filter: "nothing" });
    await expect.element(page.getByText("Nothing matches this filter")).toBeVisible();
    await expectAccessible();
    await page.getByRole("main").getByRole("button", { name: "Clear the filter" }).last().click();
    await expect.poll(() => router.state.location.search).toEqual({});
  });

  test("the hub's objection is below the filter", async () => {
    open("/services?filter=phase%3D", {
      before: (call) => {
        if (call === "queryFleet")
          throw refusal(Code.InvalidArgument, "FIELD_INVALID", "query.filter: a value is missing");
      },
    });
    await expect.element(page.getByRole("alert")).toHaveTextContent("query.filter: a value is missing");
    await expectAccessible();
  });

  test("an empty list says what the kind is for", async () => {
    open("/repositories", { sizes: {} });
    await expect.element(page.getByText("No repository yet")).toBeVisible();
    await expectAccessible();
  });

  test("repositories and clusters have lists", async () => {
    const { router } = open("/repositories");
    await expect.element(page.getByText("team-1", { exact: true })).toBeVisible();
    await expectAccessible();
    await page.getByRole("link", { name: "Clusters" }).click();
    await expect.element(page.getByText("berlin", { exact: true })).toBeVisible();
    await expectAccessible();
    await page.getByText("berlin", { exact: true }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/clusters/berlin");
  });

  test("search parameters that do not belong are as if they were not there", async () => {
    const { router } = open("/services?order=evil&phase=%3Cscript%3E&x=1");
    await expect.element(heading("Services")).toBeVisible();
    expect(router.state.matches.at(-1)?.search).toEqual({});
  });
});

describe("a service", () => {
  test("it has its reason and advice, its sources and its objects", async () => {
    open("/services/cart@berlin");
    await expect.element(heading("cart")).toBeVisible();
    await expect.element(page.getByText("Deployment cart: quota of namespace shop", { exact: false })).toBeVisible();
    // Its latest revision, beside the tabs, has the same commit once it is loaded.
    await expect.element(page.getByRole("tabpanel").getByText("4f2c1e0a")).toBeVisible();
    await expect.element(page.getByText("leat get service cart@berlin")).toBeVisible();
    expect(document.title).toBe("cart@berlin · Leat");
    await expectAccessible();
  });

  test("a phase that its agent has not reported yet has no age", async () => {
    const document = serviceDocument();
    const { status } = document.object.value as Service;
    if (!status?.report) throw new Error("the service has no report");
    status.problem = undefined;
    status.phase = status.report.phase = ServicePhase.HEALTHY;
    status.report.phaseSince = ago(180);
    const pushed = Promise.withResolvers<void>();
    open("/services/cart@berlin", {
      fleet: {
        get: () => ({ document }),
        async *watch() {
          yield { document };
          await pushed.promise;
          yield { document };
        },
      },
    });
    const head = page.getByRole("main");
    await expect.element(head.getByText("Healthy", { exact: true })).toBeVisible();
    await expect.element(head.getByText("3 hr ago")).toBeVisible();
    status.phase = ServicePhase.SYNCING;
    pushed.resolve();
    await expect.element(head.getByText("Syncing", { exact: true })).toBeVisible();
    await expect.element(head.getByText("3 hr ago")).not.toBeInTheDocument();
  });

  test("the tab is in the address", async () => {
    const { router } = open("/services/cart@berlin?tab=revisions");
    await expect.element(page.getByText("Superseded")).toBeVisible();
    await expectAccessible();
    await page.getByRole("tab", { name: "Overview" }).click();
    await expect.poll(() => router.state.location.search).toEqual({});
  });

  test("a revision that is healthy some time after it was applied says so without a reload", async () => {
    const document = serviceDocument();
    const { status } = document.object.value as Service;
    if (!status?.report) throw new Error("the service has no report");
    status.phase = status.report.phase = ServicePhase.PROGRESSING;
    let outcome = RevisionOutcome.UNSPECIFIED;
    const pushed = Promise.withResolvers<void>();
    open("/services/cart@berlin?tab=revisions", {
      fleet: {
        get: () => ({ document }),
        async *watch() {
          yield { document };
          await pushed.promise;
          yield { document };
          await new Promise(() => {});
        },
        listRevisions: () => ({ revisions: [{ number: 7n, outcome, commits: ["8".repeat(40)] }] }),
      },
    });
    await expect.element(page.getByRole("row", { name: /^7 In progress/ })).toBeVisible();
    // The agent observes the same revision as before.
    outcome = RevisionOutcome.HEALTHY;
    status.phase = status.report.phase = ServicePhase.HEALTHY;
    pushed.resolve();
    await expect.element(page.getByRole("row", { name: /^7 Healthy/ })).toBeVisible();
  });

  test("a revision leads to its trace, and no agent's text does", async () => {
    open("/services/cart@berlin?tab=revisions", {
      fleet: {
        listRevisions: () => ({
          revisions: [
            { number: 2n, commits: ["8".repeat(40)], traceUrl: "https://jaeger.example.com/trace/4bf9" },
            { number: 1n, commits: ["7".repeat(40)], traceUrl: "javascript:alert(1)" },
          ],
        }),
      },
    });
    await expect
      .element(page.getByRole("link", { name: /^Trace/ }))
      .toHaveAttribute("href", "https://jaeger.example.com/trace/4bf9");
    expect(page.getByRole("link", { name: /^Trace/ }).elements()).toHaveLength(1);
  });

  test("one that does not exist is not an empty page", async () => {
    open("/services/shop/gone@edge/berlin", {
      before: () => {
        throw refusal(Code.NotFound, "NOT_FOUND", 'there is no service "shop/gone@edge/berlin"');
      },
    });
    await expect.element(page.getByText("There is no such object")).toBeVisible();
    await expectAccessible();
  });
});

describe("a cluster", () => {
  test("it has what its agent reports, and its services", async () => {
    const { answers } = open("/clusters/berlin");
    await expect.element(heading("berlin")).toBeVisible();
    await expect.element(page.getByText("11 of 12 ready")).toBeVisible();
    await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
    expect(answers.queries.every((query) => query.cluster === "berlin")).toBe(true);
    await expectAccessible();
  });

  test("one that is away is not painted as if it were there", async () => {
    open("/clusters/berlin", {
      fleet: {
        get: () => ({ document: clusterDocument(false) }),
        watch: async function* () {
          yield { document: clusterDocument(false) };
          await new Promise(() => {});
        },
      },
    });
    await expect.element(page.getByText("Disconnected")).toBeVisible();
    await expect.element(page.getByText("This is its last word", { exact: false })).toBeVisible();
    await expect.element(page.getByText("AGENT_VERSION_SKEW")).not.toBeInTheDocument();
    await expectAccessible();
  });

  test.each([
    { newer: false, message: "the agent is too old; upgrade it", shown: "v0.9.2, too old for the hub" },
    { newer: true, message: "the agent is newer than the hub; upgrade that", shown: "v0.9.2, too new for the hub" },
  ])("one whose agent does not go with the hub's version has what to do: $shown", async ({ newer, message, shown }) => {
    const document = clusterDocument(!newer, { newer, message });
    open("/clusters/berlin", {
      fleet: {
        get: () => ({ document }),
        watch: async function* () {
          yield { document };
          await new Promise(() => {});
        },
      },
    });
    await expect.element(page.getByText(shown)).toBeVisible();
    await expect.element(page.getByText(text.sentence(message))).toBeVisible();
    await expect.element(page.getByText(text.advice.AGENT_VERSION_SKEW as string)).toBeVisible();
    await expectAccessible();
  });
});

describe("the shell", () => {
  test("the palette finds pages, objects and actions by the keyboard alone", async () => {
    const { router } = open("/");
    await expect.element(heading(/problems/)).toBeVisible();
    await userEvent.keyboard("{Control>}k{/Control}");
    await expect.element(page.getByRole("combobox", { name: "Go to" })).toHaveFocus();
    await userEvent.keyboard("web");
    await expect.element(page.getByRole("option", { name: /web-0@berlin/ })).toBeVisible();
    await expectAccessible();
    await userEvent.keyboard("{Enter}");
    await expect.poll(() => router.state.location.pathname).toBe("/services/web-0@berlin");
  });

  test("the theme is a choice that lasts", async () => {
    open("/");
    await page.getByRole("button", { name: "Signed in as ada" }).click();
    await page.getByRole("menuitemradio", { name: "Dark" }).click();
    await expect.poll(() => document.documentElement.dataset.theme).toBe("dark");
    expect(localStorage.getItem("leat.theme")).toBe("dark");
    await page.getByRole("button", { name: "Signed in as ada" }).click();
    await page.getByRole("menuitemradio", { name: "As the system" }).click();
    await expect.poll(() => localStorage.getItem("leat.theme")).toBeNull();
  });

  test("the first press of Tab offers to skip to the content", async () => {
    open("/");
    await expect.element(heading(/problems/)).toBeVisible();
    await userEvent.keyboard("{Tab}");
    await expect.element(page.getByRole("button", { name: "Skip to the content" })).toHaveFocus();
    await userEvent.keyboard("{Enter}");
    await expect.element(page.getByRole("main")).toHaveFocus();
  });

  test("a narrow screen has four pages at hand, and a menu with the others", async () => {
    await page.viewport(320, 640);
    const { router } = open("/");
    const pages = page.getByRole("navigation", { name: "Pages" });
    await expect.element(pages.getByRole("link", { name: "Repositories" })).toBeInViewport();
    await expect.element(pages.getByText("Audit")).not.toBeVisible();
    await pages.getByRole("button", { name: "More pages" }).click();
    await expectAccessible();
    await page.viewport(320, 640);
    await page.getByRole("menuitem", { name: "Audit" }).click();
    await expect.poll(() => router.state.location.pathname).toBe("/audit");
  });

  test("an address without a page says so", async () => {
    open("/nowhere");
    await expect.element(page.getByText("There is no such page")).toBeVisible();
    await expectAccessible();
  });
});
