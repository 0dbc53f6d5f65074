// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Runs Biome's binary for this machine with the given arguments. The package @biomejs/biome itself is not installed,
// because it breaks npm ci where a registry lacks one of its platforms.
import { spawnSync } from "node:child_process";

const biome = `node_modules/@biomejs/cli-linux-${process.arch}/biome`;
const { status, error } = spawnSync(biome, process.argv.slice(2), { stdio: "inherit" });
if (error) throw error;
process.exit(status ?? 1);
