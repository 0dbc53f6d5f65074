// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import { type BrowserContextOptions, chromium, type Page } from "playwright";
import { inject } from "vitest";
import { ReviewAccessResponseSchema } from "../src/gen/leat/fleet/v1/people_pb";
import { SessionServiceCreateAccessTokenResponseSchema } from "../src/gen/leat/fleet/v1/session_pb";

// The built UI in a browser, under the policy that the hub sends with it. The hub itself is tried by Go tests; here a
// few lines of a server stand for it, so that a change of the UI alone finds what it breaks.

const types: Record<string, string> = {
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
  txt: "text/plain",
};
const nonce = "dGhlIG5vbmNlIG9mIGEgdGVzdA";
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  `style-src 'self' 'nonce-${nonce}'`,
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** What the server answers to calls that every page makes. The person may read everything. */
const answers = {
  "SessionService/CreateAccessToken": toBinary(
    SessionServiceCreateAccessTokenResponseSchema,
    create(SessionServiceCreateAccessTokenResponseSchema, { accessToken: "a.b.c", session: { person: "ada" } }),
  ),
  "FleetService/ReviewAccess": toBinary(
    ReviewAccessResponseSchema,
    create(ReviewAccessResponseSchema, { allowed: true }),
  ),
};

export interface Built {
  base: string;
  /** Opens a page, which waits for what it is asked to wait for: only a hang reaches its bound. */
  newPage: (options?: BrowserContextOptions) => Promise<Page>;
  html: string;
  /** Changes what is served: a file for which it returns undefined is gone. */
  serve: (path: string, content: Buffer) => Buffer | undefined;
  /** Answers calls in place of the server's few, and requests of clusters. */
  answer: ((request: Request) => Promise<Response>) | undefined;
  /** How many bytes of requests and answers have passed, with their headers. */
  bytes: number;
  close: () => Promise<void>;
}

const sizeOf = (headers: readonly string[]) => headers.reduce((sum, text) => sum + text.length + 2, 0);

/** Has a call answered, and sends the answer as it comes. */
async function passOn(from: IncomingMessage, to: ServerResponse, built: Built) {
  const gone = new AbortController();
  to.on("close", () => gone.abort());
  const chunks: Buffer[] = [];
  for await (const chunk of from) chunks.push(chunk);
  const headers = new Headers(from.headers as Record<string, string>);
  const request = new Request(`http://leat.invalid${from.url}`, {
    method: from.method ?? "POST",
    headers,
    ...(from.method !== "GET" && { body: Buffer.concat(chunks) }),
    signal: gone.signal,
  });
  try {
    const answer = await (built.answer as (request: Request) => Promise<Response>)(request);
    to.writeHead(answer.status, Object.fromEntries(answer.headers));
    built.bytes += sizeOf([...answer.headers].flat());
    for await (const chunk of answer.body ?? []) {
      built.bytes += chunk.length;
      to.write(chunk);
    }
    to.end();
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  }
}

/** Serves the build of this run, and starts a browser. Tests that call it belong to the project "built". */
export async function startBuilt(): Promise<Built> {
  const folder = inject("built");
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://leat.invalid");
    built.bytes += sizeOf(request.rawHeaders) + Number(request.headers["content-length"] ?? 0);
    if (built.answer && /^\/(leat\.|clusters\/)/.test(pathname)) {
      void passOn(request, response, built);
      return;
    }
    if (pathname.startsWith("/leat.")) {
      response.setHeader("content-type", "application/proto");
      // Streams fail, and every other answer is empty: both are states that the pages show.
      if (pathname.includes("/Watch")) response.statusCode = 503;
      const known = Object.entries(answers).find(([call]) => pathname.endsWith(call));
      response.end(known?.[1]);
      return;
    }
    const path = pathname.replace(/^\/ui/, "");
    const extension = /\.(\w+)$/.exec(pathname)?.[1];
    if (extension !== undefined) {
      const content = existsSync(folder + path) ? built.serve(path, readFileSync(folder + path)) : undefined;
      response.statusCode = content ? 200 : 404;
      response.setHeader("content-type", types[extension] ?? "application/octet-stream");
      // As the hub does, so that a browser compiles a script once, and not for each page that a test opens.
      if (content && pathname.startsWith("/ui/assets/")) {
        response.setHeader("cache-control", "public, max-age=31536000, immutable");
      }
      response.end(content);
      return;
    }
    response.setHeader("content-type", "text/html");
    response.setHeader("content-security-policy", policy);
    response.end(built.serve("/index.html", Buffer.from(built.html.replaceAll("LEAT-NONCE", nonce))));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const browser = await chromium.launch({
    executablePath: process.env.LEAT_CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: process.getuid?.() !== 0,
  });
  const built: Built = {
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}/ui`,
    async newPage(options) {
      const page = await browser.newPage(options);
      page.setDefaultTimeout(100_000);
      return page;
    },
    html: readFileSync(`${folder}/index.html`, "utf8"),
    serve: (_, content) => content,
    answer: undefined,
    bytes: 0,
    close: async () => {
      await browser.close();
      server.closeAllConnections();
      server.close();
    },
  };
  return built;
}
