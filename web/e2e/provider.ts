// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Provider is an OpenID provider whose people have groups. Each has the same password. */
export class Provider {
  #process: ChildProcess | undefined;

  /** What the hub proves itself with. */
  readonly secret = "the secret of the hub at the provider";
  readonly password = "a password of this test";

  /** Starts it for the hub at an address, and returns its issuer. A person is written as name=group,group. */
  async start(hub: string, ...people: string[]): Promise<string> {
    const program = fileURLToPath(new URL("../../.bin/leat-provider", import.meta.url));
    const started = spawn(program, ["-hub", hub, "-secret", this.secret, ...people], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#process = started;
    for await (const issuer of createInterface({ input: started.stdout })) return issuer;
    throw new Error("the provider ended before it was ready");
  }

  async stop(): Promise<void> {
    const running = this.#process;
    if (!running || running.exitCode !== null) return;
    const ended = once(running, "exit");
    running.kill("SIGTERM");
    await ended;
  }
}
