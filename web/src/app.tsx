// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// App is the whole page.
export function App() {
  return (
    <main>
      <h1>Leat</h1>
    </main>
  );
}
