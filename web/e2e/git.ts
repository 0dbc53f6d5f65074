// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";

/** Change is what a push does to a file, from its content so far. undefined deletes it. */
export type Change = (content: string) => string | undefined;

/** Clones a repository into an empty folder, changes files of it, and pushes. Returns the commit. */
export function pushTo(repository: string, folder: string, files: Record<string, Change>): string {
  // What git complains about is part of an error, and else of no interest.
  const git = (...args: string[]) => execFileSync("git", args, { cwd: folder, encoding: "utf8", stdio: "pipe" }).trim();
  git("clone", "-q", repository, ".");
  for (const [file, change] of Object.entries(files)) {
    const path = join(folder, file);
    const content = change(existsSync(path) ? readFileSync(path, "utf8") : "");
    mkdirSync(dirname(path), { recursive: true });
    if (content === undefined) rmSync(path);
    else writeFileSync(path, content);
  }
  git("add", "--all");
  const names = Object.keys(files).join(", ");
  git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qm", `Change ${names}`);
  git("push", "-q", "origin", "HEAD:main");
  return git("rev-parse", "HEAD");
}

/** GitHost serves one repository over HTTP, by git's own back end. */
export class GitHost {
  readonly #server = createServer((from, to) => this.#serve(from, to));

  constructor(readonly folder: string) {}

  get #bare(): string {
    return join(this.folder, "fleet.git");
  }

  async start(): Promise<void> {
    execFileSync("git", ["init", "-q", "--bare", "--initial-branch=main", this.#bare]);
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
  }

  get repository(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/fleet.git`;
  }

  /** Changes the repository, and returns the commit. Only readers go over HTTP, which this process serves. */
  push(files: Record<string, Change>): string {
    return pushTo(this.#bare, mkdtempSync(join(this.folder, "work-")), files);
  }

  /** Answers a request as a web server with CGI does. */
  #serve(from: IncomingMessage, to: ServerResponse) {
    const { pathname, searchParams } = new URL(from.url ?? "/", "http://127.0.0.1");
    const backend = spawn("git", ["http-backend"], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: this.folder,
        GIT_HTTP_EXPORT_ALL: "1",
        REQUEST_METHOD: from.method,
        PATH_INFO: pathname,
        QUERY_STRING: searchParams.toString(),
        CONTENT_TYPE: from.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: from.headers["content-encoding"] ?? "",
        HTTP_GIT_PROTOCOL: String(from.headers["git-protocol"] ?? ""),
      },
      stdio: ["pipe", "pipe", "inherit"],
    });
    from.pipe(backend.stdin).on("error", () => from.resume());
    const parts: Buffer[] = [];
    backend.stdout.on("data", (part: Buffer) => parts.push(part));
    backend.on("close", () => {
      const answer = Buffer.concat(parts);
      const end = answer.indexOf("\r\n\r\n");
      for (const line of answer.subarray(0, end).toString().split("\r\n")) {
        const [, name = "", value = ""] = /^([^:]+): (.*)$/.exec(line) ?? [];
        if (name === "Status") to.statusCode = Number.parseInt(value, 10);
        else to.setHeader(name, value);
      }
      to.end(answer.subarray(end + 4));
    });
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
