// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { pushTo } from "./git.ts";

// A `leat up` as people start it: a hub, a Git host with the demo repository, and a real Kubernetes API server.

const checkout = fileURLToPath(new URL("../..", import.meta.url));
export const leat = process.env.LEAT_E2E_LEAT ?? `${checkout}.bin/leat`;

/** Summary is what leat up says when everything runs. */
interface Summary {
  server: string;
  repository: string;
  config: string;
}

/** Up is a `leat up` that runs, behind an address that stays when it is killed and started again. */
export class Up {
  #process: ChildProcess | undefined;
  #summary: Summary | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #door = createServer((from) => {
    const to = connect(Number(new URL(this.#of().server).port), "127.0.0.1");
    for (const socket of [from, to]) {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    }
    // Either end takes the other one with it, as without something between.
    from.on("error", () => to.destroy()).on("close", () => to.destroy());
    to.on("error", () => from.destroy()).on("close", () => from.destroy());
    from.pipe(to).pipe(from);
  });

  constructor(readonly dataDir: string) {}

  /** Starts it, and returns when everything runs. */
  async start(): Promise<void> {
    if (!this.#door.listening) await once(this.#door.listen(0, "127.0.0.1"), "listening");
    const args = [
      "up",
      "--output",
      "json",
      "--listen",
      "127.0.0.1:0",
      "--data-dir",
      this.dataDir,
      "--kube-source",
      checkout,
    ];
    const started = spawn(leat, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = started;
    let complaints = "";
    started.stderr.on("data", (text) => {
      complaints += text;
    });
    for await (const line of createInterface({ input: started.stdout })) {
      const { event, summary } = JSON.parse(line) as { event: string; summary?: Summary };
      if (event !== "ready" || !summary) continue;
      this.#summary = summary;
      started.stdout.resume();
      return;
    }
    throw new Error(`leat up ended before everything ran: ${complaints}`);
  }

  #of(): Summary {
    if (!this.#summary) throw new Error("leat up has not started");
    return this.#summary;
  }

  /** The URL of the demo repository. */
  get repository(): string {
    return this.#of().repository;
  }

  /** A file that leads to the cluster itself, past the hub. */
  get kubeconfig(): string {
    return `${this.dataDir}/kube/demo/kubeconfig`;
  }

  /** Runs a command line of leat as the administrator of this hub, and returns what it prints. */
  leat(...args: string[]): string {
    return execFileSync(leat, args, { env: { ...process.env, LEAT_CONFIG: this.#of().config }, encoding: "utf8" });
  }

  /** Where the browser finds the hub. */
  get origin(): string {
    return `http://leat.localhost:${(this.#door.address() as AddressInfo).port}`;
  }

  /** Returns an address of the UI that signs one browser in. */
  link(): string {
    const { url } = JSON.parse(this.leat("ui", "-o", "json")) as { url: string };
    const { pathname, hash } = new URL(url);
    return this.origin + pathname + hash;
  }

  /** Clones the demo repository into an empty folder, writes a file, and pushes. Returns the commit. */
  push(folder: string, file: string, change: (content: string) => string): string {
    return pushTo(this.repository, folder, { [file]: change });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (!running || running.exitCode !== null) return;
    const ended = once(running, "exit");
    running.kill(signal);
    await ended;
    // The kernel ends connections of a process that is gone; those of the door end with it.
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Ends it without a word, as a power failure would. */
  kill = () => this.#end("SIGKILL");

  async stop(): Promise<void> {
    await this.#end("SIGINT");
    this.#door.close();
  }
}
