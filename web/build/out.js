// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { existsSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The folder that the distributor embeds. */
export const outDir = fileURLToPath(new URL("../../services/distributor/internal/ui/dist", import.meta.url));

/** Empties the folder, except for the README that Git keeps in it. */
export function emptyOutDir() {
  if (!existsSync(outDir)) return;
  for (const name of readdirSync(outDir)) if (name !== "README") rmSync(`${outDir}/${name}`, { recursive: true });
}
