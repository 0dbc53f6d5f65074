// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// The numbers that a build must keep, and how they are measured.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

/**
 * @typedef {{ file: string, css?: string[], imports?: string[], dynamicImports?: string[], isEntry?: boolean,
 *   isDynamicEntry?: boolean }} Chunk
 * @typedef {Record<string, Chunk>} Manifest
 */

/** The bars, in bytes: of all that the first page loads, and of what a page adds to that. */
export const bars = {
  firstJsGzip: 250_000,
  firstJsBrotli: 215_000,
  firstCssGzip: 25_000,
  routeJsGzip: 60_000,
};

/** Bars of what is a library, which is loaded when somebody opens it, and not with its page. */
const heavy = /** @type {Record<string, number>} */ ({ "src/parts/editor.tsx": 130_000, "src/parts/xterm.ts": 90_000 });

/** The page at which most visits begin. */
export const frontPage = "src/pages/problems/page.tsx";

/** @param {Buffer} text */
export const gzip = (text) => gzipSync(text, { level: 9 });

/** @param {Buffer} text */
export const brotli = (text) =>
  brotliCompressSync(text, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length },
  });

/**
 * Returns the keys of a chunk and of everything that it imports statically.
 *
 * @param {Manifest} manifest
 * @param {string} key
 * @param {Set<string>} seen
 */
function closure(manifest, key, seen = new Set()) {
  if (!seen.has(key)) {
    seen.add(key);
    for (const imported of manifest[key]?.imports ?? []) closure(manifest, imported, seen);
  }
  return seen;
}

/**
 * Measures a build by Vite's manifest, and returns its figures and one sentence for each bar that it breaks.
 *
 * @param {Manifest} manifest
 * @param {(file: string) => Buffer} read
 */
export function measure(manifest, read) {
  const entry = Object.keys(manifest).find((key) => manifest[key]?.isEntry);
  if (entry === undefined) throw new Error("the manifest has no entry");
  // Most visits begin at the front page, so its own chunk is a part of the first page.
  const first = closure(manifest, entry);
  if (manifest[frontPage]) closure(manifest, frontPage, first);
  const css = new Set([...first].flatMap((key) => manifest[key]?.css ?? []));
  const total = (/** @type {Iterable<string>} */ files, /** @type {(text: Buffer) => Buffer} */ pack) =>
    [...files].reduce((sum, file) => sum + pack(read(file)).length, 0);
  const files = (/** @type {Iterable<string>} */ keys) =>
    [...keys].flatMap((key) => (manifest[key] ? [manifest[key].file] : [])).filter((file) => file.endsWith(".js"));
  const figures = {
    firstJsGzip: total(files(first), gzip),
    firstJsBrotli: total(files(first), brotli),
    firstCssGzip: total(css, gzip),
    routes: Object.entries(manifest)
      .filter(([, chunk]) => chunk.isDynamicEntry)
      .map(([key]) => ({
        key,
        gzip: total(files([...closure(manifest, key)].filter((part) => !first.has(part))), gzip),
      })),
  };
  const broken = [
    .../** @type {const} */ (["firstJsGzip", "firstJsBrotli", "firstCssGzip"])
      .filter((name) => figures[name] > bars[name])
      .map((name) => `${name} is ${figures[name]} bytes, more than ${bars[name]}`),
    ...figures.routes
      .filter((route) => route.gzip > (heavy[route.key] ?? bars.routeJsGzip))
      .map((route) => `${route.key} adds ${route.gzip} bytes, more than ${heavy[route.key] ?? bars.routeJsGzip}`),
  ];
  return { figures, broken };
}

/**
 * Reads the files of a built folder.
 *
 * @param {string} folder
 */
export const reader = (folder) => (/** @type {string} */ file) => readFileSync(join(folder, file));
