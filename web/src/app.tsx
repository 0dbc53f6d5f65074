// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import "./parts/base.css";
import "./parts/tokens.css";
import { PartsPage } from "./pages/parts/page.tsx";
import { StatusMessages } from "./parts/status.tsx";

// App is the whole page.
export function App() {
  return (
    <main>
      <PartsPage />
      <StatusMessages />
    </main>
  );
}
