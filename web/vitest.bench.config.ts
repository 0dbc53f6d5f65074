// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { defineConfig } from "vitest/config";

// What takes time on one machine and another time on the next: `make bench` prints it beside its goals, and no test asks.
export default defineConfig({
  test: {
    include: ["bench/**/*.test.ts"],
    globalSetup: "test/build.ts",
    testTimeout: 600_000,
    hookTimeout: 600_000,
    fileParallelism: false,
  },
});
