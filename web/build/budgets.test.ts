// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { bars, frontPage, measure } from "./budgets.js";

const bytes = (size: number) => {
  // Noise does not compress, so a file is about as large as its compressed form.
  let seed = 1;
  const noise = Array.from({ length: size }, () => {
    seed = (seed * 48271) % 2147483647;
    return seed & 255;
  });
  return Buffer.from(noise);
};

const manifest = {
  "index.html": { file: "a.js", isEntry: true, imports: ["_shared.js"], dynamicImports: ["page.tsx"], css: ["a.css"] },
  "_shared.js": { file: "s.js" },
  "page.tsx": { file: "p.js", isDynamicEntry: true, imports: ["_shared.js", "_own.js"] },
  "_own.js": { file: "o.js" },
};

const sizes = (of: Record<string, number>) => (file: string) => bytes(of[file] ?? 10);

test("a small build breaks no bar", () => {
  const { figures, broken } = measure(manifest, sizes({ "a.js": 1000, "s.js": 500 }));
  expect(broken).toEqual([]);
  expect(figures.firstJsGzip).toBeGreaterThan(1500);
});

test("what the entry imports counts for the first page, and once", () => {
  const { broken } = measure(manifest, sizes({ "s.js": bars.firstJsGzip + 1 }));
  expect(broken.map((sentence) => sentence.split(" ")[0])).toEqual(["firstJsGzip", "firstJsBrotli"]);
});

test("a page has a bar of its own, with what it alone imports", () => {
  const { broken } = measure(manifest, sizes({ "o.js": bars.routeJsGzip }));
  expect(broken).toHaveLength(1);
  expect(broken[0]).toContain("page.tsx adds");
});

test("the front page's own chunk counts for the first page", () => {
  const { broken } = measure(
    { ...manifest, [frontPage]: { file: "f.js", isDynamicEntry: true } },
    sizes({ "f.js": bars.firstJsGzip + 1 }),
  );
  expect(broken).toHaveLength(2);
});

test("styles have a bar", () => {
  const { broken } = measure(manifest, sizes({ "a.css": bars.firstCssGzip }));
  expect(broken).toHaveLength(1);
});
