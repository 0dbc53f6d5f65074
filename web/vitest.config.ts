// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { playwright } from "@vitest/browser-playwright";
import { defineConfig, mergeConfig } from "vitest/config";
import { flaky, retry } from "./build/flaky.js";
import { isSiege } from "./build/siege.js";
import vite from "./vite.config.ts";

// Debian's browser, because Playwright's own is a download of its own. As root it runs without its sandbox.
const chromium = playwright({
  launchOptions: {
    executablePath: process.env.LEAT_CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: process.getuid?.() !== 0,
  },
});

// They open the built UI, of which a run makes one.
const built = ["test/{budget*,hostile*,palette,policy,screen,upgrade}.test.ts"];

export default mergeConfig(
  vite,
  defineConfig({
    // Another run beside this one may have the usual port. Then the next free one is taken.
    // Tests also read and write the pictures of the guide.
    server: { strictPort: false, fs: { allow: [".", "../docs/ui"] } },
    test: {
      // A busy machine is slow, not broken: only a hang reaches these.
      testTimeout: 120_000,
      hookTimeout: 120_000,
      expect: { poll: { timeout: 100_000 } },
      retry,
      reporters: ["default", flaky(isSiege ? "web-siege" : "web")],
      projects: [
        {
          extends: true,
          test: { name: "unit", environment: "node", include: ["{src,build,test}/**/*.test.ts"], exclude: built },
        },
        { extends: true, test: { name: "built", environment: "node", include: built, globalSetup: "test/build.ts" } },
        {
          extends: true,
          // Named here, or the first test that imports one of them reloads the page under the others.
          optimizeDeps: {
            include: [
              "@bufbuild/protobuf",
              "@bufbuild/protobuf/codegenv2",
              "@bufbuild/protobuf/wire",
              "@bufbuild/protobuf/wkt",
              "@codemirror/commands",
              "@codemirror/lang-yaml",
              "@codemirror/language",
              "@codemirror/state",
              "@codemirror/view",
              "@connectrpc/connect",
              "@connectrpc/connect-web",
              "@lezer/highlight",
              "@tanstack/react-router",
              "@tanstack/react-virtual",
              "@xterm/addon-fit",
              "@xterm/xterm",
              "axe-core",
              "diff",
              "d3-hierarchy",
              "gifenc",
              "re2js",
              "react",
              "react-aria-components",
              "react-dom",
              "react-dom/client",
              "react/jsx-dev-runtime",
              "react/jsx-runtime",
              "yaml",
            ],
          },
          test: {
            name: "browser",
            include: ["{src,test}/**/*.test.tsx"],
            browser: {
              enabled: true,
              provider: chromium,
              headless: true,
              screenshotFailures: false,
              instances: [{ browser: "chromium", viewport: { width: 1280, height: 900 } }],
            },
          },
        },
      ],
    },
  }),
);
