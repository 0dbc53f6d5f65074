// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { defineConfig } from "vitest/config";
import { flaky, retry } from "./build/flaky.js";

// A whole hub with a cluster, and the UI that it embeds: `make ui-story` builds both first.
export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    // A busy machine is slow, not broken: only a hang reaches these.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
    retry,
    reporters: ["default", flaky("web-story")],
  },
});
