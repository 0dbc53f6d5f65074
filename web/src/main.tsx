// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createConnectTransport } from "@connectrpc/connect-web";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { browserBuilds } from "./hub/build.ts";
import { createHub } from "./hub/hub.ts";
import { browserTabs } from "./hub/tabs.ts";
import { makeRouter } from "./shell/router.tsx";
import { startTheme } from "./shell/theme.ts";

startTheme();

// The UI is below the hub's own origin, and calls nothing else.
const hub = createHub(
  (interceptors, path = "") =>
    createConnectTransport({ baseUrl: location.origin + path, useBinaryFormat: import.meta.env.PROD, interceptors }),
  { tabs: browserTabs(), builds: browserBuilds() },
);
const root = document.getElementById("app");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App hub={hub} router={makeRouter()} />
    </StrictMode>,
  );
}
