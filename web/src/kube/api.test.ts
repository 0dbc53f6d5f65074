// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { failureOf } from "../hub/failure.ts";
import type { Clusters } from "../hub/hub.ts";
import { originOf, query, readJson, readStream } from "./api.ts";

const never = new AbortController().signal;

/** Returns clusters that give one answer, and the paths that were asked for. */
function answering(answer: () => Response | Promise<Response>) {
  const asked: string[] = [];
  const clusters: Clusters = {
    transport: () => {
      throw new Error("no agent is asked here");
    },
    connect: () => Promise.reject(new Error("no program runs here")),
    async fetch(cluster, path) {
      asked.push(cluster + path);
      return answer();
    },
  };
  return { clusters, asked };
}

// As the hub and an API server of v1.36 answer.
const forbidden = {
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  message:
    'pods is forbidden: User "leat:user:ada" cannot list resource "pods" in API group "" in the namespace "shop"',
  reason: "Forbidden",
  details: { kind: "pods" },
  code: 403,
};
const offline = {
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  message: 'the agent of cluster "berlin" is not connected (origin: tunnel, trace id: 1)',
  reason: "ServiceUnavailable",
  details: {
    name: "berlin",
    kind: "clusters",
    causes: [{ reason: "AGENT_OFFLINE", message: 'the agent of cluster "berlin" is not connected' }],
  },
  code: 503,
};

const failed = async (status: number, body: unknown, headers: Record<string, string>) => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const { clusters } = answering(() => new Response(text, { status, headers }));
  return readJson(clusters, "berlin", "/api/v1/namespaces/shop/pods", never).then(
    () => undefined,
    (thrown) => failureOf(thrown),
  );
};

test("a cluster's refusal has its own words, and is not the hub's", async () => {
  const failure = await failed(403, forbidden, { "Leat-Error-Origin": "cluster" });
  expect(failure).toMatchObject({ kind: "refused", reason: "", message: forbidden.message });
  expect(failure && originOf(failure)).toBe("cluster");
});

test("the hub's refusal has its reason", async () => {
  const status = { ...forbidden, message: "x", details: { causes: [{ message: "ask for a binding" }] } };
  const failure = await failed(403, status, { "Leat-Error-Origin": "hub", "Leat-Error-Reason": "ACCESS_DENIED" });
  expect(failure).toMatchObject({ kind: "refused", reason: "ACCESS_DENIED", message: "ask for a binding" });
  expect(failure && originOf(failure)).toBe("hub");
});

test("a cluster that is not connected is known by its reason", async () => {
  const failure = await failed(503, offline, {
    "Leat-Error-Origin": "tunnel",
    "Leat-Error-Reason": "AGENT_OFFLINE",
  });
  expect(failure).toMatchObject({
    kind: "unreachable",
    reason: "AGENT_OFFLINE",
    message: 'the agent of cluster "berlin" is not connected',
  });
});

test("an answer that is no Status is shown in part", async () => {
  const failure = await failed(502, `<h1>${"x".repeat(10_000)}</h1>`, {});
  expect(failure?.kind).toBe("unreachable");
  expect(failure?.message).toHaveLength(2000);
  expect(failure && originOf(failure)).toBeUndefined();
});

test("an origin that the page does not know is left out", async () => {
  const failure = await failed(500, "", { "Leat-Error-Origin": "javascript:alert(1)" });
  expect(failure && originOf(failure)).toBeUndefined();
});

test("no answer at all is a failure that may pass", async () => {
  const { clusters } = answering(() => Promise.reject(new TypeError("Failed to fetch")));
  await expect(readJson(clusters, "berlin", "/version", never)).rejects.toMatchObject({
    failure: { kind: "unreachable" },
  });
});

test("an answer that would fill the page is refused", async () => {
  const chunk = new Uint8Array(1024 * 1024).fill(32);
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(chunk),
    cancel: () => {
      isCancelled = true;
    },
  });
  const { clusters } = answering(() => new Response(body));
  await expect(readJson(clusters, "berlin", "/api/v1/pods", never)).rejects.toThrow("too long");
  expect(isCancelled).toBe(true);
});

test("a stream yields lines, and ends its answer when its reader stops", async () => {
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new TextEncoder().encode("one\ntwo\n")),
    cancel: () => {
      isCancelled = true;
    },
  });
  const { clusters, asked } = answering(() => new Response(body));
  for await (const lines of readStream(clusters, "berlin", "/api/v1/pods?watch=1", 1e6, never)) {
    expect(lines.map((line) => line.text)).toEqual(["one", "two"]);
    break;
  }
  expect(isCancelled).toBe(true);
  expect(asked).toEqual(["berlin/api/v1/pods?watch=1"]);
});

test("a query leaves out what is not set, and escapes the rest", () => {
  expect(query({ limit: 500, continue: undefined, labelSelector: "app=web,tier in (a)" })).toBe(
    "?limit=500&labelSelector=app%3Dweb%2Ctier+in+%28a%29",
  );
  expect(query({})).toBe("");
});
