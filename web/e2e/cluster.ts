// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const checkout = fileURLToPath(new URL("../..", import.meta.url));

/** Which of the cluster's own roles Leat's groups have, as in deploy/kubernetes/agent.yaml. */
const roles = { admins: "cluster-admin", operators: "edit", viewers: "view" };

/**
 * Cluster is a Kubernetes control plane whose pods answer: commands run on this machine, in a folder of the test, and
 * every container writes the same log.
 */
export class Cluster {
  #process: ChildProcess | undefined;
  #kubectl = "";

  constructor(readonly folder: string) {}

  get kubeconfig(): string {
    return `${this.folder}/kube/kubeconfig`;
  }

  async start(): Promise<void> {
    mkdirSync(`${this.folder}/pod`, { recursive: true });
    this.write("The container has begun.");
    const pods = {
      ClusterExec: {
        execs: [{ local: { workDir: `${this.folder}/pod`, envs: [{ name: "PATH", value: process.env.PATH }] } }],
      },
      ClusterLogs: { logs: [{ logsFile: `${this.folder}/log` }] },
    };
    const kubelet = Object.entries(pods).map(([kind, spec]) =>
      JSON.stringify({ apiVersion: "kwok.x-k8s.io/v1alpha1", kind, metadata: { name: "all" }, spec }),
    );
    writeFileSync(`${this.folder}/kubelet.yaml`, kubelet.join("\n---\n"));
    const args = ["up", "--data-dir", `${this.folder}/kube`, "--kubelet", `${this.folder}/kubelet.yaml`];
    const started = spawn(`${checkout}.bin/leat-kube`, args, { cwd: checkout, stdio: ["ignore", "pipe", "pipe"] });
    this.#process = started;
    let complaints = "";
    started.stderr.on("data", (text) => {
      complaints += text;
    });
    for await (const line of createInterface({ input: started.stdout })) {
      const [, kubectl] = /^ {2}(\S+) --kubeconfig /.exec(line) ?? [];
      if (!kubectl) continue;
      this.#kubectl = kubectl;
      started.stdout.resume();
      for (const [group, role] of Object.entries(roles)) {
        this.kubectl("create", "clusterrolebinding", `leat-${group}`, `--clusterrole=${role}`, `--group=leat:${group}`);
      }
      return;
    }
    throw new Error(`the control plane ended before it was ready: ${complaints}`);
  }

  /** Runs kubectl as the cluster's administrator, and returns what it prints. */
  kubectl(...args: string[]): string {
    return execFileSync(this.#kubectl, ["--kubeconfig", this.kubeconfig, ...args], { encoding: "utf8" }).trim();
  }

  /** Makes every container write a line now. */
  write(line: string): void {
    appendFileSync(`${this.folder}/log`, `${new Date().toISOString()} stdout F ${line}\n`);
  }

  async stop(): Promise<void> {
    const running = this.#process;
    if (!running || running.exitCode !== null) return;
    const ended = once(running, "exit");
    running.kill("SIGINT");
    await ended;
  }
}
