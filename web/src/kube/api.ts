// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Failure, KnownError } from "../hub/failure.ts";
import type { Clusters } from "../hub/hub.ts";
import { type Line, readLines } from "./lines.ts";

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

const record = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

/** Returns what a page shows of an answer that is an error: a Status of Kubernetes, or a text. */
async function refusal(response: Response): Promise<KnownError> {
  const origin = response.headers.get("Leat-Error-Origin") ?? "";
  const raw = await textOf(response, 256 * 1024).catch(() => "");
  let message = raw;
  let retry = 0;
  try {
    const status = record(JSON.parse(raw));
    const details = record(status.details);
    const causes = Array.isArray(details.causes) ? details.causes : [];
    // The hub repeats its sentence as a cause, without where it comes from: the page shows that in another way.
    const own = origin === "hub" || origin === "tunnel" ? record(causes[0]).message : undefined;
    message = String(own ?? status.message ?? "");
    retry = Number(details.retryAfterSeconds) || 0;
  } catch {
    // An answer of a program on the way, such as a proxy, is shown as it is.
  }
  return new KnownError({
    kind: response.status === 401 && origin === "hub" ? "signedOut" : kindOf(response.status),
    reason: response.headers.get("Leat-Error-Reason") ?? "",
    message: message.trim().slice(0, mostMessage),
    metadata: { origin },
    ...(retry > 0 && { retryAfter: retry * 1000 }),
  });
}

async function request(
  clusters: Clusters,
  cluster: string,
  path: string,
  signal: AbortSignal,
  accept?: string,
): Promise<Response> {
  let response: Response;
  try {
    response = await clusters.fetch(cluster, path, { signal, ...(accept && { accept }) });
  } catch (thrown) {
    if (signal.aborted || !(thrown instanceof TypeError)) throw thrown;
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
  const text = await textOf(await request(clusters, cluster, path, signal, accept), mostAnswer);
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new KnownError({ kind: "failed", reason: "", message: "the answer is not JSON", metadata: {} });
  }
}

/** Yields the lines of an answer as they arrive, until it ends, the signal does, or it has become longer than most bytes. */
export async function* readStream(
  clusters: Clusters,
  cluster: string,
  path: string,
  most: number,
  signal: AbortSignal,
): AsyncGenerator<Line[]> {
  const { body } = await request(clusters, cluster, path, signal, "*/*");
  if (!body) return;
  try {
    yield* readLines(body, most);
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
