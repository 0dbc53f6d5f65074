// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import "./parts/base.css";
import "./parts/tokens.css";
import { RouterProvider } from "@tanstack/react-router";
import { type Hub, HubContext } from "./hub/hub.ts";
import type { makeRouter } from "./shell/router.tsx";

/** App is the whole UI, of one hub. */
export function App({ hub, router }: { hub: Hub; router: ReturnType<typeof makeRouter> }) {
  return (
    <HubContext value={hub}>
      <RouterProvider router={router} />
    </HubContext>
  );
}
