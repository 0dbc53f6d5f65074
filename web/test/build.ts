// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder of the built UI. */
    built: string;
  }
}

/** Builds the UI once for all tests of a run that open it, into a folder of that run. */
export default function setup(project: TestProject) {
  const folder = mkdtempSync(`${tmpdir()}/leat-ui-`);
  // As a process of its own, because the environment of tests makes another build than the one that people get.
  const env = { ...process.env, NODE_ENV: "production" };
  const args = ["node_modules/vite/bin/vite.js", "build", "--outDir", folder, "--emptyOutDir", "--logLevel", "error"];
  const build = () => {
    execFileSync(process.execPath, args, { cwd: fileURLToPath(new URL("..", import.meta.url)), env });
  };
  const remove = () => rmSync(folder, { recursive: true });
  try {
    build();
  } catch (error) {
    remove();
    throw error;
  }
  project.onTestsRerun(build);
  project.provide("built", folder);
  return remove;
}
