// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { BinaryReader } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";

/** Failure is why a call failed, as pages show it. */
export interface Failure {
  kind: "signedOut" | "refused" | "missing" | "invalid" | "unreachable" | "busy" | "failed";
  /** The hub's reason, such as ACCESS_DENIED. Empty: the call did not reach the hub, or it is another server's answer. */
  reason: string;
  message: string;
  metadata: Readonly<Record<string, string>>;
  /** How many milliseconds the hub asks to wait before the next try. */
  retryAfter?: number;
}

const domain = "leat.dev";

/** KnownError is an error of a request that is no call, such as one to a cluster. Its failure has been read already. */
export class KnownError extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** Returns the fields of a message that a caller needs: text and bytes by number, and numbers as numbers. */
function fields(bytes: Uint8Array): [number, Uint8Array | number][] {
  const reader = new BinaryReader(bytes);
  const found: [number, Uint8Array | number][] = [];
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (wire === 2) found.push([field, reader.bytes()]);
    else if (wire === 0) found.push([field, Number(reader.int64())]);
    else reader.skip(wire);
  }
  return found;
}

const utf8 = new TextDecoder();
const asText = (value: Uint8Array | number | undefined) => (value instanceof Uint8Array ? utf8.decode(value) : "");
const asNumber = (value: Uint8Array | number | undefined) => (typeof value === "number" ? value : 0);

/**
 * Reads google.rpc.ErrorInfo and RetryInfo, in which the hub's reason and its wish to wait travel. The generated client
 * does not hold these two messages, because no call of the hub names them.
 */
function details(error: ConnectError) {
  const found: { reason: string; metadata: Record<string, string>; retryAfter?: number } = { reason: "", metadata: {} };
  for (const detail of error.details) {
    if (!("type" in detail) || !(detail.value instanceof Uint8Array)) continue;
    try {
      const parts = fields(detail.value);
      const get = (number: number) => parts.find(([field]) => field === number)?.[1];
      if (detail.type === "google.rpc.ErrorInfo" && asText(get(2)) === domain) {
        found.reason = asText(get(1));
        for (const [field, entry] of parts) {
          if (field !== 3 || !(entry instanceof Uint8Array)) continue;
          const pair = new Map(fields(entry));
          found.metadata[asText(pair.get(1))] = asText(pair.get(2));
        }
      } else if (detail.type === "google.rpc.RetryInfo") {
        const delay = get(1);
        if (delay instanceof Uint8Array) {
          const parts = new Map(fields(delay));
          found.retryAfter = asNumber(parts.get(1)) * 1000 + asNumber(parts.get(2)) / 1e6;
        }
      }
    } catch {
      // A detail that cannot be read is as if it were not there: the error itself still counts.
    }
  }
  return found;
}

function kindOf(code: Code, reason: string): Failure["kind"] {
  switch (code) {
    case Code.Unauthenticated:
      return "signedOut";
    case Code.PermissionDenied:
      return "refused";
    case Code.NotFound:
      return "missing";
    case Code.InvalidArgument:
    case Code.OutOfRange:
      return "invalid";
    case Code.ResourceExhausted:
      return "busy";
    case Code.Unavailable:
      return "unreachable";
    case Code.Unknown:
      // fetch fails with a TypeError when there is no answer at all; the client makes this code of it.
      return reason === "" ? "unreachable" : "failed";
    default:
      return "failed";
  }
}

/** Returns what a page shows about any error that a call throws. */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof KnownError) return thrown.failure;
  const error = ConnectError.from(thrown);
  const { reason, metadata, retryAfter } = details(error);
  return {
    kind: kindOf(error.code, reason),
    reason,
    message: error.rawMessage,
    metadata,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
}

/** Reports whether the same call may succeed later without a change by a person. */
export const isPassing = (failure: Failure): boolean =>
  failure.kind === "unreachable" || failure.kind === "busy" || failure.kind === "failed";
