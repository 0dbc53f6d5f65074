// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import axe from "axe-core";
import type { ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, expect } from "vitest";
import { page } from "vitest/browser";
import "../src/parts/base.css";
import "../src/parts/tokens.css";

let root: Root | undefined;
let host: HTMLElement | undefined;

/** Renders into the page, as main.tsx does. The page is empty again after the test. */
export function render(content: ReactNode): HTMLElement {
  host = document.createElement("div");
  host.id = "app";
  document.body.append(host);
  document.documentElement.lang = "en";
  document.title = "Leat";
  root = createRoot(host);
  root.render(content);
  return host;
}

afterEach(async () => {
  root?.unmount();
  host?.remove();
  root = host = undefined;
  delete document.documentElement.dataset.theme;
  await page.viewport(1280, 900);
});

export const sizes = [
  [1280, 900],
  [390, 844],
  [320, 640],
] as const;

export const themes = ["light", "dark"] as const;

const wcag = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/**
 * What axe looks at. A run takes a quarter of a second, so not every size is tried in every theme: each size has its
 * controls measured, and colours, of which no style but tokens.css sets one, are tried in both themes.
 */
const runs: Record<(typeof sizes)[number][0], Partial<Record<(typeof themes)[number], string[]>>> = {
  1280: { light: wcag, dark: ["color-contrast", "link-in-text-block"] },
  390: { dark: wcag },
  320: { light: ["target-size"] },
};

/**
 * Expects no finding of axe, enough contrast in both themes, and no text beyond the width of the screen at any size.
 * Rules of the best practice are left out, because a part alone has no landmarks.
 */
export async function expectAccessible(): Promise<void> {
  for (const [width, height] of sizes) {
    await page.viewport(width, height);
    for (const [theme, runOnly] of Object.entries(runs[width])) {
      document.documentElement.dataset.theme = theme;
      // A colour in the middle of its transition is in neither theme.
      for (const animation of document.getAnimations()) animation.finish();
      const { violations } = await axe.run(document.body, { runOnly, resultTypes: ["violations"] });
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join("\n  ")}`);
      expect(found, `${theme} at ${width} px`).toEqual([]);
    }
    const { scrollWidth } = document.documentElement;
    expect(scrollWidth, `the page's width at ${width} px`).toBeLessThanOrEqual(width);
  }
  await page.viewport(1280, 900);
}
