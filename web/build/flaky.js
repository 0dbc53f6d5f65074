// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// A test that fails runs again, as one in Go does. CONTRIBUTING.md describes it.
import { mkdirSync, writeFileSync } from "node:fs";

/** How often a failed test runs again: once under make test, and never in a run by hand, which looks for such tests. */
export const retry = Number(process.env.RERUNS ?? 0) > 0 ? 1 : 0;

/**
 * Reports tests that failed and then passed, and writes them to .test/NAME.flaky.txt, which the last step of CI prints.
 *
 * @param {string} name
 * @returns {import("vitest/node").Reporter}
 */
export function flaky(name) {
  return {
    onTestRunEnd(modules) {
      let lines = "";
      for (const module of modules) {
        for (const test of module.children.allTests("passed")) {
          if (!test.diagnostic()?.flaky) continue;
          const why = test.result().errors?.[0]?.message ?? "";
          lines += `FLAKY   web/${module.relativeModuleId} > ${test.fullName}\n`;
          if (why) lines += `        ${why.replaceAll("\n", "\n        ")}\n`;
        }
      }
      mkdirSync("../.test", { recursive: true });
      writeFileSync(`../.test/${name}.flaky.txt`, lines);
      process.stdout.write(lines);
    },
  };
}
