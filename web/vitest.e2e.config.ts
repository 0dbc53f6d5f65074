// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { defineConfig } from "vitest/config";
import { flaky, retry } from "./build/flaky.js";
import { isSiege } from "./build/siege.js";

// Each takes more than a minute. What they find breaks when parts of a hub do, or when a page gets another button.
const sieges = ["e2e/{parts,tasks}.test.ts"];

// A whole hub with a cluster, and the UI that it embeds: `make ui-story` builds both first.
export default defineConfig({
  test: {
    include: isSiege ? sieges : ["e2e/**/*.test.ts"],
    exclude: isSiege ? [] : sieges,
    // A busy machine is slow, not broken: only a hang reaches these.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
    retry,
    reporters: ["default", flaky(isSiege ? "web-story-siege" : "web-story")],
  },
});
