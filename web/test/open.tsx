// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createMemoryHistory } from "@tanstack/react-router";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub } from "./hub.ts";
import { render } from "./render.tsx";

/** Opens a page of a hub that answers in the page. */
export function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub(change);
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { router, answers };
}
