// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createMemoryHistory } from "@tanstack/react-router";
import { afterEach, describe, expect, test } from "vitest";
import { cdp, page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { say } from "../src/parts/status.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { setTheme } from "../src/shell/theme.ts";
import { text } from "../src/text/en.ts";
import { documentsOf, sourceRows } from "./fleet-sources.ts";
import { globalMembers, globalRows } from "./global-services.ts";
import { governRows } from "./govern-objects.ts";
import { type Answers, makeHub } from "./hub.ts";
import { imageRows } from "./images.ts";
import { reachApi } from "./reach.ts";
import { render } from "./render.tsx";
import { policyRows, rolloutAnswers } from "./rollouts.ts";
import { alike, flat, lost, luminance, moving, strange, unfocused, unreadable } from "./visible.ts";

// How people set their screens: dark or light, more contrast, colours of their own, no motion, 200 %, narrow. Every page
// of the router is tried, so a new one is among them at once. visible.test.tsx shows what is found.

/** An object for the pages of objects. */
const examples: Record<string, string> = {
  "/services/$": "cart@berlin",
  "/commits/$": `demo@${"4f2c".repeat(10)}`,
  "/rollouts/$": "shops",
  "/global-services/$": "ingress",
  "/fleet-sources/$": "fleet",
  "/image-policies/$": "web",
  "/projects/$": "shop",
  "/configuration/sets/$": "region-eu",
  "/configuration/backends/$": "vault-test",
  "/recordings/$": "1a",
  "/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object":
    "berlin/resources/core/v1/configmaps/shop/cart",
  default: "berlin",
};

/** How the colours of a page are chosen: by the system, and by the person, whose choice goes before. */
const looks = (["no-preference", "more"] as const).flatMap((contrast) =>
  (["light", "dark"] as const).flatMap((system) =>
    (["system", "light", "dark"] as const).map((chosen) => ({ system, chosen, contrast })),
  ),
);

const paths = Object.keys(makeRouter(createMemoryHistory()).routesByPath)
  .map((path) => path.replace(/\$\w*(\/resources\/\$.*)?/, examples[path] ?? (examples.default as string)))
  // Somebody who is signed in is led away from it. Its own tests show it.
  .filter((path) => path !== "/sign-in")
  .concat(
    "/clusters?view=map&by=region",
    "/clusters/berlin/resources?kind=configmaps",
    "/resources?kind=configmaps&clusters=berlin",
  );

const began = timestampFromMs(Date.UTC(2026, 10, 28, 9));
const token = { id: "1a", user: "ada", label: "laptop", createTime: began, lastUsedTime: began };
const recording = {
  id: "1a",
  cluster: "berlin",
  subject: "user:ada",
  namespace: "shop",
  pod: "cart-7d4b9-aaaaa",
  container: "web",
  command: ["bash", "-l"],
  beganAt: began,
  writtenAt: began,
  size: 48_300n,
};

/** What the pages need of the hub beside what it has for every test. */
const delivery: Partial<Answers> = {
  objects: (kind) =>
    governRows(kind) ??
    { RolloutPolicy: policyRows, GlobalService: globalRows, FleetSource: sourceRows, ImagePolicy: imageRows }[
      kind as "FleetSource"
    ]?.(),
  rollouts: rolloutAnswers,
  globals: { listGlobalServiceMembers: globalMembers },
  sources: { listFleetSourceDocuments: (request) => documentsOf(request) },
  fleet: { listTokens: () => ({ tokens: [token] }) },
  sessions: { listSessions: () => ({ sessions: [{ id: "s1", person: "ada", provider: "corp", createTime: began }] }) },
  tunnel: {
    listRecordings: () => ({ recordings: [recording] }),
    getRecording: async function* () {
      yield { data: new TextEncoder().encode(`{"version":2,"width":60,"height":12}\n[1,"o","$ make\\r\\n"]\n`) };
    },
  },
  kube: reachApi().kube,
};

interface Devtools {
  send(method: string, params: object): Promise<unknown>;
}

/** What the browser reports of the person's system. What is not named is as the browser has it. */
type System = Partial<
  Record<"prefers-color-scheme" | "prefers-contrast" | "prefers-reduced-motion" | "forced-colors", string>
>;

async function emulate(system: System) {
  const features = Object.entries(system).map(([name, value]) => ({ name, value }));
  await (cdp() as Devtools).send("Emulation.setEmulatedMedia", { features });
  // Without the mode, the page is the usual one, and all would pass.
  for (const [name, value] of Object.entries(system))
    expect(matchMedia(`(${name}: ${value})`).matches, name).toBe(true);
}

afterEach(async () => {
  setTheme("system");
  await emulate({});
});

/** Opens a page, and waits until it shows its object: neither a part that loads nor a failure has much to lose. */
async function open(path: string) {
  const { hub } = makeHub(delivery);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  const main = page.getByRole("main");
  await expect.element(main.getByRole("heading").first()).toBeVisible();
  // The page of parts shows what loads and what failed as examples.
  if (path !== "/parts") {
    await expect.poll(() => document.querySelector("main [role=status] > .unseen, main [aria-busy=true]")).toBeNull();
    expect(document.querySelector("main [role=alert]")?.textContent ?? "").toBe("");
  }
  expect(document.title).not.toBe(text.titleOf(text.noSuchPage));
  expect(router.state.location.pathname).toBe(path.replace(/\?.*/, ""));
}

const colour = (name: string) => {
  const probe = document.createElement("i");
  probe.style.color = name;
  document.documentElement.append(probe);
  try {
    return getComputedStyle(probe).color;
  } finally {
    probe.remove();
  }
};

/** Lets the page draw twice: what has been asked for is then drawn. */
const frames = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));

/** What each drawing of the page shows. */
const drawings = () => [...document.querySelectorAll<HTMLCanvasElement>("main canvas")].map((each) => each.toDataURL());

describe.each(paths)("%s", (path) => {
  test.each([
    ["at 200 %", 640, 450],
    ["at 320 px", 320, 640],
    ["as wide as a desk", 1280, 900],
  ])("nothing is lost %s", async (_, width, height) => {
    await page.viewport(width, height);
    await open(path);
    // A failure stays until somebody removes it, and covers nothing.
    say("The hub refused to sync web@berlin", true);
    await expect.element(page.getByText("The hub refused to sync web@berlin")).toBeVisible();
    expect(lost()).toEqual([]);
  });

  test("it is read in the theme of the system, in the other one, and in more contrast", async () => {
    await open(path);
    const drawn: Record<string, string[]> = {};
    for (const { system, chosen, contrast } of looks) {
      await emulate({ "prefers-color-scheme": system, "prefers-contrast": contrast });
      setTheme(chosen);
      for (const animation of document.getAnimations()) animation.finish();
      await frames();
      const isDark = (chosen === "system" ? system : chosen) === "dark";
      const look = `${isDark ? "dark" : "light"}, ${contrast}`;
      const note = `${chosen} of a system that is ${system}, contrast ${contrast}`;
      // Scroll bars and the browser's own controls are of the scheme, and the rest of the variables.
      expect(luminance(colour("CanvasText")) > luminance(colour("Canvas")), note).toBe(isDark);
      expect(strange(isDark), note).toEqual([]);
      expect(unreadable(contrast === "more" ? 7 : 4.5), note).toEqual([]);
      drawn[look] ??= drawings();
      expect(drawings(), note).toEqual(drawn[look]);
    }
    const [dark, light] = [drawn["dark, no-preference"] ?? [], drawn["light, no-preference"] ?? []];
    for (const [index, drawing] of dark.entries())
      expect(drawing === light[index], "the drawing of both themes").toBe(false);
  });

  test("the system's colours leave everything visible", async () => {
    await emulate({ "forced-colors": "active" });
    await open(path);
    expect(lost()).toEqual([]);
    expect(unreadable(4.5)).toEqual([]);
    expect(flat()).toEqual([]);
    expect(alike()).toEqual([]);
    expect(unfocused()).toEqual([]);
  });

  test("nothing moves for people who want no motion", async () => {
    await open(path);
    say("a message");
    await expect.element(page.getByText("a message")).toBeVisible();
    // The usual page does move, so what is looked for can be found.
    expect(moving()).not.toEqual([]);
    await emulate({ "prefers-reduced-motion": "reduce" });
    expect(moving()).toEqual([]);
  });

  test("nothing moves while it loads", async () => {
    const { hub } = makeHub({ before: () => new Promise(() => {}) });
    render(<App hub={hub} router={makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }))} />);
    await expect.element(page.getByRole("main")).toBeVisible();
    await emulate({ "prefers-reduced-motion": "reduce" });
    expect(moving()).toEqual([]);
  });
});
