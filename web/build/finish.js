// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Finishes a build: it measures it against the budgets, removes Vite's manifest, which browsers do not need, and writes
// each text file a second and a third time, compressed, so that the server compresses nothing.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { brotli, gzip, measure, reader } from "./budgets.js";
import { outDir } from "./out.js";

/** index.html is not among them: the server writes a nonce into each answer. */
const textual = new Set([".js", ".css", ".svg", ".json", ".txt", ".webmanifest"]);

const { figures, broken } = measure(
  JSON.parse(readFileSync(join(outDir, ".vite/manifest.json"), "utf8")),
  reader(outDir),
);
rmSync(join(outDir, ".vite"), { recursive: true });

for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !textual.has(extname(entry.name))) continue;
  const path = join(entry.parentPath, entry.name);
  const text = readFileSync(path);
  writeFileSync(`${path}.gz`, gzip(text));
  writeFileSync(`${path}.br`, brotli(text));
}

const kB = (/** @type {number} */ bytes) => `${(bytes / 1000).toFixed(1)} kB`;
process.stdout.write(
  `first page: JS ${kB(figures.firstJsGzip)} gzip, ${kB(figures.firstJsBrotli)} br; CSS ${kB(figures.firstCssGzip)} gzip\n` +
    figures.routes.map((route) => `${route.key}: ${kB(route.gzip)} gzip\n`).join(""),
);
for (const sentence of broken) process.stderr.write(`budget: ${sentence}\n`);
process.exit(broken.length === 0 ? 0 : 1);
