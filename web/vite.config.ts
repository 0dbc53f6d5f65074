// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import { emptyOutDir, outDir } from "./build/out.js";

// The hub that `npm run dev` shows. Host is kept, so that checks of the origin hold.
const hub = process.env.LEAT_DEV_HUB ?? "http://leat.localhost:8700";

// keepReadme empties the output folder. Vite's own emptyOutDir would remove the README in it, too.
// A build into another folder, as a test makes one, leaves the embedded one alone.
const keepReadme = (): Plugin => {
  let isEmbedded = false;
  return {
    name: "leat:keep-readme",
    apply: "build",
    configResolved({ build }) {
      isEmbedded = build.outDir === outDir;
    },
    buildStart() {
      if (isEmbedded) emptyOutDir();
    },
  };
};

export default defineConfig({
  base: "/ui/",
  plugins: [react(), keepReadme()],
  // The server replaces this text in each answer. Nothing of the page is inline, so only what runs needs the nonce.
  html: { cspNonce: "LEAT-NONCE" },
  css: { modules: { localsConvention: "camelCaseOnly" } },
  build: {
    outDir,
    emptyOutDir: false,
    manifest: true,
    sourcemap: false,
    target: ["chrome123", "firefox120", "safari17.5"],
    // A data: URL of a script or style is refused by the policy, and of an icon not worth it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    // Browsers resolve leat.localhost to it; Node's resolver may not know the name.
    host: "127.0.0.1",
    port: 5173,
    strictPort: true,
    proxy: Object.fromEntries(
      ["^/leat\\.", "/ui/session", "/login", "/device", "/clusters", "/.well-known"].map((path) => [
        path,
        { target: hub, changeOrigin: false },
      ]),
    ),
  },
});
