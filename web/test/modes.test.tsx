// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { afterEach, describe, expect, test } from "vitest";
import { cdp, page } from "vitest/browser";
import { App } from "../src/app.tsx";
import { say } from "../src/parts/status.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { documentsOf, sourceRows } from "./fleet-sources.ts";
import { globalMembers, globalRows } from "./global-services.ts";
import { governRows } from "./govern-objects.ts";
import { type Answers, makeHub } from "./hub.ts";
import { imageRows } from "./images.ts";
import { reachApi } from "./reach.ts";
import { render } from "./render.tsx";
import { policyRows, rolloutAnswers } from "./rollouts.ts";

// How people set their screens: colours of their own, no motion, 200 %, narrow. Every page of the router is tried, so a
// new one is among them at once.

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
  "/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object":
    "berlin/resources/core/v1/configmaps/shop/cart",
  default: "berlin",
};

const paths = Object.keys(makeRouter(createMemoryHistory()).routesByPath)
  .map((path) => path.replace(/\$\w*(\/resources\/\$.*)?/, examples[path] ?? (examples.default as string)))
  // Somebody who is signed in is led away from it. Its own tests show it.
  .filter((path) => path !== "/sign-in")
  .concat(
    "/clusters?view=map&by=region",
    "/clusters/berlin/resources?kind=configmaps",
    "/resources?kind=configmaps&clusters=berlin",
  );

/** What the pages of delivery need of the hub: their objects are in documents. */
const delivery: Partial<Answers> = {
  objects: (kind) =>
    governRows(kind) ??
    { RolloutPolicy: policyRows, GlobalService: globalRows, FleetSource: sourceRows, ImagePolicy: imageRows }[
      kind as "FleetSource"
    ]?.(),
  rollouts: rolloutAnswers,
  globals: { listGlobalServiceMembers: globalMembers },
  sources: { listFleetSourceDocuments: (request) => documentsOf(request) },
  kube: reachApi().kube,
};

interface Devtools {
  send(method: string, params: object): Promise<unknown>;
}

const emulate = (feature: string, value: string) =>
  (cdp() as Devtools).send("Emulation.setEmulatedMedia", { features: [{ name: feature, value }] });

afterEach(() => (cdp() as Devtools).send("Emulation.setEmulatedMedia", { features: [] }));

async function open(path: string, change: Partial<Answers> = {}) {
  const { hub } = makeHub({ ...delivery, ...change });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  // An object that this hub does not have is a page, too: it says so in a heading of its own.
  await expect.element(page.getByRole("main").getByRole("heading").first()).toBeVisible();
}

const controls = "a[href], button, input:not([type=hidden]), textarea, select, [role=tab], [role=row][tabindex='0']";

/** Reports whether an element is for screen readers alone, or until it has the focus. */
const isUnseen = (element: Element) => {
  for (let at: Element | null = element; at; at = at.parentElement) {
    if (getComputedStyle(at).clipPath === "inset(50%)") return true;
  }
  return false;
};

const named = (element: Element) =>
  `${element.tagName.toLowerCase()} "${element.getAttribute("aria-label") ?? element.textContent?.slice(0, 60)}"`;

/** Returns what cannot be reached or read at the size of the screen. */
function lost(): string[] {
  const found: string[] = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push(`the page is wider than ${width} px`);
  for (const control of document.querySelectorAll<HTMLElement>(controls)) {
    if (!control.checkVisibility() || isUnseen(control)) continue;
    control.scrollIntoView({ block: "center", inline: "nearest" });
    const { left, right, top, bottom } = control.getBoundingClientRect();
    if (left < -1 || right > width + 1) found.push(`${named(control)} is beside the screen`);
    const at = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    if (!at || !(control.contains(at) || at.contains(control))) found.push(`${named(control)} is covered`);
  }
  for (const element of document.querySelectorAll<HTMLElement>("#app *")) {
    const hasText = [...element.childNodes].some(
      (node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim(),
    );
    const { overflowX } = getComputedStyle(element);
    if (!hasText || overflowX === "visible" || overflowX === "auto" || overflowX === "scroll") continue;
    if (element.scrollWidth <= element.clientWidth + 1 || isUnseen(element) || !element.checkVisibility()) continue;
    // A text that ends in an ellipsis is in a title, or its row leads to a page that has all of it.
    if (!element.closest("[title], [role=row], button[aria-label]")) found.push(`${named(element)} is cut off`);
  }
  return found;
}

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
    expect(lost().join("\n")).toBe("");
  });

  test("the system's colours leave everything visible", async () => {
    await emulate("forced-colors", "active");
    await open(path);
    expect(matchMedia("(forced-colors: active)").matches).toBe(true);
    expect(lost().join("\n")).toBe("");
    // Surfaces have the system's colour, so a control is seen by its edge, and an icon by its line.
    const flat = [...document.querySelectorAll<HTMLElement>("#app button, #app input")].filter((control) => {
      if (!control.checkVisibility() || isUnseen(control)) return false;
      const { borderTopWidth, borderTopStyle, color, backgroundColor } = getComputedStyle(control);
      const hasEdge = borderTopStyle !== "none" && borderTopWidth !== "0px";
      return !hasEdge && color === backgroundColor;
    });
    expect(flat.map(named)).toEqual([]);
    // What is chosen differs from what is not by more than a surface.
    const drawn = (element: Element) => {
      const { outlineStyle, borderTopColor, borderBottomStyle, borderBottomColor, color, textDecorationLine } =
        getComputedStyle(element);
      return [outlineStyle, borderTopColor, borderBottomStyle, borderBottomColor, color, textDecorationLine].join();
    };
    for (const [chosen, other] of [
      ["nav ul a[aria-current=page]", "nav ul a:not([aria-current=page])"],
      ["[aria-pressed=true]", "[aria-pressed=false]"],
      ["[role=tab][aria-selected=true]", "[role=tab][aria-selected=false]"],
    ] as const) {
      const [one, two] = [document.querySelector(chosen), document.querySelector(other)];
      if (one && two) expect(drawn(one), chosen).not.toBe(drawn(two));
    }
    // The focus is seen.
    for (const control of document.querySelectorAll<HTMLElement>("#app main :is(a, button, input)")) {
      if (!control.checkVisibility() || isUnseen(control)) continue;
      control.focus({ focusVisible: true } as FocusOptions);
      // A field with an icon in it has its outline around both.
      const outlines = [control, control.closest(":focus-within:not(:focus)")].map((at) => at && getComputedStyle(at));
      const isSeen = outlines.some((style) => style?.outlineStyle !== "none" && style?.outlineWidth !== "0px");
      expect(isSeen, `the focus of ${named(control)}`).toBe(true);
    }
  });

  test("nothing moves for people who want no motion", async () => {
    await emulate("prefers-reduced-motion", "reduce");
    await open(path);
    say("a message");
    await expect.element(page.getByText("a message")).toBeVisible();
    expect(document.getAnimations()).toEqual([]);
  });

  test("nothing moves while it loads", async () => {
    await emulate("prefers-reduced-motion", "reduce");
    const { hub } = makeHub({ before: () => new Promise(() => {}) });
    render(<App hub={hub} router={makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }))} />);
    await expect.element(page.getByRole("main")).toBeVisible();
    expect(document.getAnimations()).toEqual([]);
  });
});
