// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer as listen, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { leat } from "./hub.ts";

// A hub whose parts are programs of their own, as operators run it, so that a test can kill one of them. It uses the
// cluster and the Git host of a leat up.

const bin = fileURLToPath(new URL("../../.bin/", import.meta.url));

export type Part = "redis" | "gitcache" | "distributor" | "tunnel" | "agent";

/** Returns so many ports that are free. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => listen().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return ports;
}

interface Program {
  file: string;
  args: string[];
  env: Record<string, string>;
  /** Reports whether it does its work, from what it answers. */
  ready: () => Promise<boolean>;
  process?: ChildProcess;
}

const answers = async (url: string) => {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
};

/** Parts is a hub of programs, with one agent, behind one address. */
export class Parts {
  readonly #programs = new Map<Part, Program>();
  /** The administrator's API token. */
  readonly admin = `leat_${randomBytes(24).toString("hex")}`;
  readonly #ports: Record<string, number> = {};
  readonly #front = createServer((from, to) => this.#lead(from, to));
  /** What calls of the browser were answered: the path, and the code of the hub, or the HTTP status. */
  readonly answered: { path: string; code: string }[] = [];

  readonly #sockets: Socket[] = [];

  /** more are settings of parts beside those that they need. */
  constructor(
    readonly folder: string,
    readonly cluster: { name: string; kubeconfig: string },
    readonly more: Partial<Record<Part, Record<string, string>>> = {},
  ) {
    this.#front.on("connection", (socket) => this.#sockets.push(socket));
    this.#front.on("upgrade", (from, socket, first) => this.#leadUpgraded(from, socket, first));
  }

  /** How many bytes browsers have sent and received. */
  get bytes(): number {
    return this.#sockets.reduce((sum, socket) => sum + socket.bytesRead + socket.bytesWritten, 0);
  }

  get origin(): string {
    return `http://leat.localhost:${(this.#front.address() as AddressInfo).port}`;
  }

  #url = (part: string) => `http://127.0.0.1:${this.#ports[part]}`;

  /** Returns the address of the service that answers a path. */
  #serviceOf(path: string): string {
    const part = /^\/(clusters|tunnel|leat\.tunnel\.v1\.TunnelService)(\/|$)/.test(path) ? "tunnel" : "distributor";
    return this.#url(part) + path;
  }

  /** Leads a WebSocket of a browser to its service. */
  #leadUpgraded(from: IncomingMessage, socket: Duplex, first: Buffer) {
    const passed = request(this.#serviceOf(from.url ?? "/"), { method: from.method, headers: from.headers });
    const begin = ({ statusCode, statusMessage, rawHeaders }: IncomingMessage) => {
      const lines = rawHeaders.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`));
      socket.write(`HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join("")}\r\n`);
    };
    passed.on("upgrade", (answer, to, next) => {
      begin(answer);
      to.write(first);
      socket.write(next);
      socket.pipe(to).pipe(socket);
      to.on("error", () => socket.destroy()).on("close", () => socket.destroy());
      socket.on("close", () => to.destroy());
    });
    passed.on("response", (answer) => {
      begin(answer);
      answer.pipe(socket);
    });
    socket.on("error", () => passed.destroy());
    passed.on("error", () => socket.destroy());
    passed.end();
  }

  /** Leads a request of a browser to its service, as a proxy in front of a hub does. */
  #lead(from: IncomingMessage, to: ServerResponse) {
    const path = from.url ?? "/";
    const options = { method: from.method, headers: from.headers };
    const passed = request(this.#serviceOf(path), options, (answer) => {
      const code = answer.headers["grpc-status"] ?? answer.statusCode;
      this.answered.push({ path, code: String(code) });
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(to).on("error", () => answer.destroy());
      answer.on("error", () => to.destroy());
    });
    to.on("close", () => passed.destroy());
    passed.on("error", () => {
      if (to.headersSent) to.destroy();
      else to.writeHead(502, { "content-type": "text/html" }).end("<h1>502 Bad Gateway</h1>");
    });
    from.pipe(passed);
  }

  async start(): Promise<void> {
    await once(this.#front.listen(0, "127.0.0.1"), "listening");
    const names = ["redis", "gitcache", "distributor", "tunnel", "agent", "peers"];
    const ports = await freePorts(names.length * 2);
    names.forEach((name, index) => {
      this.#ports[name] = ports[index * 2] as number;
      this.#ports[`${name} inside`] = ports[index * 2 + 1] as number;
    });
    const printed = execFileSync(leat, ["keys"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    const keys: Record<string, string> = Object.fromEntries(
      [...printed.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
    );
    const at = (part: string) => this.#url(part).replace("http://", "");
    const data = (part: string) => {
      mkdirSync(`${this.folder}/${part}`, { recursive: true });
      return `${this.folder}/${part}`;
    };
    const service = (part: Part, env: Record<string, string>) =>
      this.#programs.set(part, {
        file: bin + part,
        args: [],
        env: {
          LEAT_LISTEN_ADDR: at(part),
          LEAT_INTERNAL_LISTEN_ADDR: at(`${part} inside`),
          LEAT_SERVICE_SECRET: keys[`LEAT_${part.toUpperCase()}_SECRET`] ?? "",
          LEAT_SERVICE_KEYS: keys.LEAT_SERVICE_KEYS ?? "",
          ...env,
          ...this.more[part],
        },
        ready: () => answers(`${this.#url(`${part} inside`)}/readyz`),
      });
    const redis = `redis://${at("redis")}`;
    this.#programs.set("redis", {
      file: "redis-server",
      args: ["--bind", "127.0.0.1", "--port", String(this.#ports.redis), "--save", "", "--dir", data("redis")],
      env: {},
      ready: async () => {
        try {
          execFileSync("redis-cli", ["-p", String(this.#ports.redis), "ping"], { stdio: "ignore" });
          return true;
        } catch {
          return false;
        }
      },
    });
    service("gitcache", {
      LEAT_REDIS_URL: redis,
      LEAT_GITCACHE_DATA_DIR: data("gitcache"),
      LEAT_GITCACHE_ADVERTISE_URL: this.#url("gitcache"),
    });
    service("distributor", {
      LEAT_DISTRIBUTOR_DATABASE_URL: `sqlite://${data("distributor")}/leat.db`,
      LEAT_DISTRIBUTOR_DATA_DIR: data("distributor"),
      LEAT_DISTRIBUTOR_ADMIN_TOKEN: this.admin,
      LEAT_DISTRIBUTOR_PUBLIC_URL: this.origin,
      LEAT_GITCACHE_URL: this.#url("gitcache"),
      LEAT_TUNNEL_URL: this.#url("tunnel"),
      LEAT_TRUSTED_PROXIES: "127.0.0.0/8",
    });
    service("tunnel", {
      LEAT_DISTRIBUTOR_URL: this.#url("distributor"),
      LEAT_REDIS_URL: redis,
      LEAT_TUNNEL_PEER_LISTEN_ADDR: at("peers"),
      LEAT_TUNNEL_ADVERTISE_URL: this.#url("peers"),
      LEAT_TRUSTED_PROXIES: "127.0.0.0/8",
    });
    for (const part of ["redis", "gitcache", "distributor", "tunnel"] as const) await this.run(part);
    await this.apply(`apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: ${this.cluster.name}}\n`);
    this.#programs.set("agent", {
      file: `${bin}agent`,
      args: [],
      env: {
        LEAT_LISTEN_ADDR: at("agent"),
        LEAT_AGENT_HUB_URL: this.#url("distributor"),
        LEAT_AGENT_JOIN_TOKEN: (await this.leat("cluster", "token", this.cluster.name)).trim(),
        LEAT_AGENT_DATA_DIR: data("agent"),
        LEAT_AGENT_KUBECONFIG: this.cluster.kubeconfig,
        LEAT_AGENT_NAMESPACE: "leat-parts",
      },
      ready: () => answers(`${this.#url("agent")}/readyz`),
    });
    await this.run("agent");
  }

  /** Starts a part, and returns when it does its work. */
  async run(part: Part): Promise<void> {
    const program = this.#programs.get(part) as Program;
    const log = openSync(`${this.folder}/${part}.log`, "a");
    const started = spawn(program.file, program.args, {
      stdio: ["ignore", log, log],
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...program.env },
    });
    program.process = started;
    while (!(await program.ready())) {
      if (started.exitCode !== null) throw new Error(`${part} ended: see ${this.folder}/${part}.log`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async #end(part: Part, signal: NodeJS.Signals): Promise<void> {
    const running = this.#programs.get(part)?.process;
    if (!running || running.exitCode !== null || running.signalCode !== null) return;
    const ended = once(running, "exit");
    running.kill(signal);
    await ended;
  }

  /** Ends a part without a word, as a power failure would. */
  kill = (part: Part) => this.#end(part, "SIGKILL");

  async stop(): Promise<void> {
    for (const part of [...this.#programs.keys()].reverse()) await this.#end(part, "SIGKILL");
    this.#front.closeAllConnections();
    this.#front.close();
  }

  /** Runs a command line of leat as the administrator of this hub, and returns what it prints. */
  async leat(...args: string[]): Promise<string> {
    const env = { ...process.env, LEAT_SERVER: this.#url("distributor"), LEAT_TOKEN: this.admin };
    return (await promisify(execFile)(leat, args, { env, encoding: "utf8" })).stdout;
  }

  async apply(documents: string): Promise<void> {
    writeFileSync(`${this.folder}/documents.yaml`, documents);
    await this.leat("apply", "-f", `${this.folder}/documents.yaml`);
  }
}
