// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { render } from "./render.tsx";
import { alike, flat, lost, moving, strange, unfocused, unreadable } from "./visible.ts";

// What modes.test.tsx would not notice if these found nothing.

const long = "a name that is longer than its place";
const narrow = { inlineSize: 60, overflow: "hidden", whiteSpace: "nowrap", textOverflow: "ellipsis" } as const;
const covering = { position: "fixed", inset: 0, background: "#fff" } as const;

const cases: Record<string, { of: () => string[]; bad: Record<string, ReactNode>; good: Record<string, ReactNode> }> = {
  lost: {
    of: lost,
    bad: {
      "a control under something": (
        <>
          <button type="button">Sync</button>
          <div style={covering} />
        </>
      ),
      "a control that its place cuts off": (
        <div style={{ blockSize: 4, overflow: "clip" }}>
          <button type="button" style={{ marginBlockStart: 40 }}>
            Sync
          </button>
        </div>
      ),
      "a control without a size": <a href="/ui/" style={{ display: "inline-block", inlineSize: 0, blockSize: 0 }} />,
      "a control beside the screen": (
        <button type="button" style={{ position: "fixed", insetInlineStart: -40 }}>
          Sync
        </button>
      ),
      "a page that is too wide": <div style={{ inlineSize: 3000 }}>wide</div>,
      "a text that ends in an ellipsis": <div style={narrow}>{long}</div>,
      "a text that what is around it cuts off": (
        <div style={{ inlineSize: 60, overflow: "hidden" }}>
          <span style={{ whiteSpace: "nowrap" }}>{long}</span>
        </div>
      ),
      "lines below the end of their place": (
        <div style={{ inlineSize: 60, blockSize: 20, overflow: "hidden" }}>{long}</div>
      ),
      "a tip with another text": (
        <div style={narrow} title="a tip">
          {long}
        </div>
      ),
      "a row that leads nowhere": (
        <div role="grid">
          <div role="row" style={narrow}>
            {long}
          </div>
        </div>
      ),
    },
    good: {
      "a control, and a text that fits": <button type="button">Sync</button>,
      "a link that breaks into lines": (
        <p style={{ inlineSize: 90 }}>
          It is <a href="/ui/">what this cluster runs</a> now.
        </p>
      ),
      "a text whose tip has all of it": (
        <div style={narrow} title={long}>
          {long}
        </div>
      ),
      "a text to which one scrolls": (
        <div style={{ inlineSize: 60, overflow: "auto" }}>
          <span style={{ whiteSpace: "nowrap" }}>{long}</span>
        </div>
      ),
      "a text for screen readers": <span className="unseen">{long}</span>,
    },
  },
  unreadable: {
    of: () => unreadable(4.5),
    bad: {
      "grey on white": <p style={{ color: "#888", background: "#fff" }}>text</p>,
      "a text that shines through": <p style={{ color: "#000", background: "#fff", opacity: 0.3 }}>text</p>,
      "on the surface behind a wash": (
        <div style={{ background: "#000" }}>
          <p style={{ color: "#000", background: "#ffffff22" }}>text</p>
        </div>
      ),
      "a placeholder": (
        <div className="pale">
          <style>{".pale input::placeholder { color: #ccc; opacity: 1 }"}</style>
          <input placeholder="text" style={{ background: "#fff", border: "1px solid #000" }} />
        </div>
      ),
      "a field without an edge": <input style={{ background: "#fff", border: 0 }} />,
      "a field with a pale edge": (
        <div style={{ background: "#fff" }}>
          <input style={{ border: "1px solid #ddd" }} />
        </div>
      ),
    },
    good: {
      "black on white": <p style={{ color: "#000", background: "#fff" }}>text</p>,
      "large and dark grey": <p style={{ color: "#888", background: "#fff", fontSize: 24 }}>text</p>,
      "in another notation": <p style={{ color: "oklch(0.2 0 0)", background: "color(srgb 1 1 1)" }}>text</p>,
      "a control that is switched off": (
        <button type="button" disabled style={{ color: "#bbb", background: "#fff" }}>
          Sync
        </button>
      ),
    },
  },
  strange: {
    of: () => {
      document.documentElement.dataset.theme = "dark";
      return strange(true);
    },
    bad: { "a white surface": <div style={{ background: "#fff", blockSize: 200 }} /> },
    good: {
      "a dark surface": <div style={{ background: "#111", blockSize: 200 }} />,
      "a light sign": <div style={{ background: "#fff", blockSize: 20, inlineSize: 20 }} />,
    },
  },
  moving: {
    of: moving,
    bad: {
      "what will move": <p style={{ transition: "color 1s" }}>text</p>,
      "what scrolls slowly": <p style={{ scrollBehavior: "smooth" }}>text</p>,
      "what turns": (
        <p style={{ animation: "turn 1s infinite" }}>
          <style>{"@keyframes turn { to { rotate: 1turn } }"}</style>
          text
        </p>
      ),
      "what turns before a text": (
        <p className="turning">
          <style>{'.turning::before { content: ""; transition: color 1s }'}</style>
          text
        </p>
      ),
    },
    good: { "a text": <p>text</p> },
  },
  flat: {
    of: flat,
    bad: {
      "a link like a text": (
        <a href="/ui/" style={{ color: "inherit", textDecoration: "none" }}>
          Services
        </a>
      ),
      "a word without an edge": (
        <button type="button" style={{ border: 0 }}>
          Sync
        </button>
      ),
    },
    good: {
      "a checkbox": <input type="checkbox" />,
      "a word with an edge": (
        <button type="button" style={{ border: "1px solid" }}>
          Sync
        </button>
      ),
      "a link": <a href="/ui/">Services</a>,
    },
  },
  alike: {
    of: alike,
    bad: {
      "a tab like the others": (
        <div role="tablist">
          <button type="button" role="tab" aria-selected="false">
            Logs
          </button>
          <button type="button" role="tab" aria-selected="true" style={{ background: "#eee" }}>
            Events
          </button>
        </div>
      ),
      "the second choice": (
        <>
          <p>
            <button type="button" aria-pressed="true" style={{ outline: "1px solid" }}>
              All
            </button>
            <button type="button" aria-pressed="false">
              Failed
            </button>
          </p>
          <p>
            <button type="button" aria-pressed="true">
              All
            </button>
            <button type="button" aria-pressed="false">
              Failed
            </button>
          </p>
        </>
      ),
    },
    good: {
      "a tab with a line": (
        <div role="tablist">
          <button type="button" role="tab" aria-selected="false">
            Logs
          </button>
          <button type="button" role="tab" aria-selected="true" style={{ textDecoration: "underline" }}>
            Events
          </button>
        </div>
      ),
    },
  },
  unfocused: {
    of: unfocused,
    bad: {
      "no outline": (
        <button type="button" style={{ outline: "none" }}>
          Sync
        </button>
      ),
      "an outline that is not seen": (
        <button type="button" style={{ outline: "2px solid transparent" }}>
          Sync
        </button>
      ),
      "a choice without an outline": (
        <select style={{ outline: "none" }}>
          <option>All</option>
        </select>
      ),
    },
    good: { "the usual outline": <button type="button">Sync</button> },
  },
};

async function show(content: ReactNode) {
  render(<main>{content}</main>);
  await expect.element(page.getByRole("main")).toBeInTheDocument();
}

describe.each(Object.entries(cases))("%s", (_, { of, bad, good }) => {
  test.each(Object.entries(bad))("finds %s", async (_, content) => {
    await show(content);
    expect(of()).not.toEqual([]);
  });

  test.each(Object.entries(good))("passes %s", async (_, content) => {
    await show(content);
    expect(of()).toEqual([]);
  });
});
