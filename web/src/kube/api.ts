// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Failure, KnownError } from "../hub/failure.ts";
import type { ClusterRequest, Clusters } from "../hub/hub.ts";
import { type Line, mostBytes, readLines } from "./lines.ts";

// Reads of a cluster's Kubernetes API through the hub. A request is the person's: the hub decides whether it reaches the
// cluster, and the cluster's own RBAC decides what it answers. The two refuse in different words, and different people
// can change that, so each failure names its origin.

/** Origin is where a failure comes from: the hub's bindings, its tunnel, the agent, or the cluster itself. */
export type Origin = "hub" | "tunnel" | "agent" | "cluster";

/** Returns where a failure comes from, or undefined if nothing answered. */
export const originOf = ({ metadata }: Failure): Origin | undefined =>
  (["hub", "tunnel", "agent", "cluster"] as const).find((origin) => origin === metadata.origin);

/** How many bytes of an answer that is no stream are read. */
const mostAnswer = 16 * 1024 * 1024;
const mostMessage = 2000;

function kindOf(status: number): Failure["kind"] {
  if (status === 403) return "refused";
  if (status === 404) return "missing";
  if (status === 400 || status === 405 || status === 406 || status === 422) return "invalid";
  if (status === 429) return "busy";
  return status === 502 || status === 503 || status === 504 ? "unreachable" : "failed";
}

/** Returns the text of an answer, or fails if it is longer than a page could hold. */
async function textOf(response: Response, most: number): Promise<string> {
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  while (true) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > most) {
      await reader.cancel().catch(() => {});
      throw new KnownError({ kind: "failed", reason: "", message: "the answer is too long to be shown", metadata: {} });
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** Cause is a part of why an API server refused, such as one field that another manager has. */
export interface Cause {
  reason: string;
  field: string;
  message: string;
}

/** ClusterError is an answer of a cluster, or of what is before it, that is an error. */
export class ClusterError extends KnownError {
  readonly code: number;
  readonly causes: readonly Cause[];

  constructor(failure: Failure, code: number, causes: readonly Cause[]) {
    super(failure);
    this.code = code;
    this.causes = causes;
  }
}

/** Reports whether an error is an answer with this code. */
export const hasCode = (thrown: unknown, code: number): thrown is ClusterError =>
  thrown instanceof ClusterError && thrown.code === code;

const mostCauses = 500;

const record = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

/** Returns what a page shows of an answer that is an error: a Status of Kubernetes, or a text. */
async function refusal(response: Response): Promise<ClusterError> {
  const origin = response.headers.get("Leat-Error-Origin") ?? "";
  const raw = await textOf(response, 256 * 1024).catch(() => "");
  let message = raw;
  let retry = 0;
  let causes: unknown[] = [];
  try {
    const status = record(JSON.parse(raw));
    const details = record(status.details);
    causes = Array.isArray(details.causes) ? details.causes.slice(0, mostCauses) : [];
    // The hub repeats its sentence as a cause, without where it comes from: the page shows that in another way.
    const own = origin === "hub" || origin === "tunnel" ? record(causes[0]).message : undefined;
    message = String(own ?? status.message ?? "");
    retry = Number(details.retryAfterSeconds) || 0;
  } catch {
    // An answer of a program on the way, such as a proxy, is shown as it is.
  }
  return new ClusterError(
    {
      kind: response.status === 401 && origin === "hub" ? "signedOut" : kindOf(response.status),
      reason: response.headers.get("Leat-Error-Reason") ?? "",
      message: message.trim().slice(0, mostMessage),
      metadata: { origin },
      ...(retry > 0 && { retryAfter: retry * 1000 }),
    },
    response.status,
    causes.map(record).map(({ reason = "", field = "", message = "" }) => ({
      reason: String(reason).slice(0, 300),
      field: String(field).slice(0, mostMessage),
      message: String(message).slice(0, mostMessage),
    })),
  );
}

async function request(clusters: Clusters, cluster: string, path: string, init: ClusterRequest): Promise<Response> {
  let response: Response;
  try {
    response = await clusters.fetch(cluster, path, init);
  } catch (thrown) {
    if (init.signal.aborted || !(thrown instanceof TypeError)) throw thrown;
    throw new KnownError({ kind: "unreachable", reason: "", message: "", metadata: {} });
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

/** Returns the object or list at a path. The caller says what it is, and reads it as what others wrote. */
export async function readJson<T>(
  clusters: Clusters,
  cluster: string,
  path: string,
  signal: AbortSignal,
  accept?: string,
): Promise<T> {
  return jsonOf<T>(await request(clusters, cluster, path, { signal, ...(accept && { accept }) }));
}

async function jsonOf<T>(response: Response): Promise<T> {
  const text = await textOf(response, mostAnswer);
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new KnownError({ kind: "failed", reason: "", message: "the answer is not JSON", metadata: {} });
  }
}

/** Sends a body to a path, and returns the object that the cluster answers. The type of an apply is that of its patch. */
export async function sendJson<T>(
  clusters: Clusters,
  cluster: string,
  path: string,
  method: "POST" | "PATCH" | "DELETE",
  body: unknown,
  signal: AbortSignal,
  type = "application/json",
): Promise<T> {
  return jsonOf<T>(
    await request(clusters, cluster, path, { signal, sending: { method, type, body: JSON.stringify(body) } }),
  );
}

/** Yields the lines of an answer as they arrive, until it ends, the signal does, or it has become longer than most bytes. */
export async function* readStream(
  clusters: Clusters,
  cluster: string,
  path: string,
  most: number,
  signal: AbortSignal,
): AsyncGenerator<Line[]> {
  yield* await openStream(clusters, cluster, path, most, signal);
}

/** Requests an answer that goes on, and returns its lines once it has begun. */
export async function openStream(
  clusters: Clusters,
  cluster: string,
  path: string,
  most: number,
  signal: AbortSignal,
  { accept = "*/*", mostLine = mostBytes }: { accept?: string; mostLine?: number } = {},
): Promise<AsyncGenerator<Line[]>> {
  const { body } = await request(clusters, cluster, path, { signal, accept });
  return linesOf(body, most, mostLine, signal);
}

async function* linesOf(
  body: ReadableStream<Uint8Array> | null,
  most: number,
  mostLine: number,
  signal: AbortSignal,
): AsyncGenerator<Line[]> {
  if (!body) return;
  try {
    yield* readLines(body, most, mostLine);
  } catch (thrown) {
    if (signal.aborted || !(thrown instanceof TypeError)) throw thrown;
    // The connection broke in the middle.
    throw new KnownError({ kind: "unreachable", reason: "", message: "", metadata: {} });
  }
}

/** Returns a query of a URL. Values that are undefined are left out. */
export function query(values: Record<string, string | number | boolean | undefined>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value !== undefined) search.set(key, String(value));
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}
