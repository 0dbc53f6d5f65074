// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test, vi } from "vitest";
import { createBuilds, scriptOf } from "./build.ts";

const pageOf = (script: string) =>
  `<!doctype html><html><head><script type="module" crossorigin src="${script}" nonce="x"></script></head></html>`;
const own = "/ui/assets/index-1a2b.js";

function start(first = pageOf(own)) {
  const hub = { page: first, isAway: false };
  const builds = createBuilds(
    own,
    async () => {
      if (hub.isAway) throw new TypeError("Failed to fetch");
      return hub.page;
    },
    () => {},
  );
  const listener = vi.fn();
  builds.subscribe(listener);
  return { hub, builds, listener };
}

test("the script of a page names its build", () => {
  expect(scriptOf(pageOf(own))).toBe(own);
  expect(scriptOf('<script src="/other.js"></script>')).toBeUndefined();
  expect(scriptOf("502 Bad Gateway")).toBeUndefined();
});

test("the same build is not new, and another one is, once", async () => {
  const { hub, builds, listener } = start();
  await builds.check();
  expect(builds.isNew()).toBe(false);
  hub.page = pageOf("/ui/assets/index-3c4d.js");
  await builds.check();
  await builds.check();
  expect(builds.isNew()).toBe(true);
  expect(listener).toHaveBeenCalledTimes(1);
});

test("replicas that are replaced one after the other take the offer back, and make it again", async () => {
  const { hub, builds, listener } = start(pageOf("/ui/assets/index-3c4d.js"));
  await builds.check();
  hub.page = pageOf(own);
  await builds.check();
  expect(builds.isNew()).toBe(false);
  expect(listener).toHaveBeenCalledTimes(2);
});

test.each(["", "<h1>This build of Leat has no web UI</h1>"])(
  "an answer that is no page says nothing: %j",
  async (page) => {
    const { builds } = start(page);
    await builds.check();
    expect(builds.isNew()).toBe(false);
  },
);

test("a hub that does not answer says nothing", async () => {
  const { hub, builds, listener } = start();
  hub.isAway = true;
  await builds.check();
  expect(builds.isNew()).toBe(false);
  expect(listener).not.toHaveBeenCalled();
});
