// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { failureOf, isPassing } from "./failure.ts";

function info(reason: string, domain = "leat.dev", metadata: Record<string, string> = {}): Uint8Array {
  const writer = new BinaryWriter().tag(1, 2).string(reason).tag(2, 2).string(domain);
  for (const [key, value] of Object.entries(metadata)) {
    writer.tag(3, 2).bytes(new BinaryWriter().tag(1, 2).string(key).tag(2, 2).string(value).finish());
  }
  return writer.finish();
}

function thrown(code: Code, ...details: [string, Uint8Array][]): ConnectError {
  const error = new ConnectError("ada may not", code);
  error.details = details.map(([type, value]) => ({ type, value }));
  return error;
}

test("the hub's reason and metadata are read", () => {
  const failure = failureOf(
    thrown(Code.PermissionDenied, ["google.rpc.ErrorInfo", info("ACCESS_DENIED", "leat.dev", { kind: "Service" })]),
  );
  expect(failure).toEqual({
    kind: "refused",
    reason: "ACCESS_DENIED",
    message: "ada may not",
    metadata: { kind: "Service" },
  });
  expect(isPassing(failure)).toBe(false);
});

test("a reason of another domain is not ours", () => {
  const failure = failureOf(thrown(Code.NotFound, ["google.rpc.ErrorInfo", info("NOT_FOUND", "example.com")]));
  expect(failure.reason).toBe("");
  expect(failure.kind).toBe("missing");
});

test("the wish to wait is read", () => {
  const delay = new BinaryWriter().tag(1, 0).int64(2).tag(2, 0).int32(500_000_000).finish();
  const failure = failureOf(
    thrown(
      Code.ResourceExhausted,
      ["google.rpc.ErrorInfo", info("RATE_LIMITED")],
      ["google.rpc.RetryInfo", new BinaryWriter().tag(1, 2).bytes(delay).finish()],
    ),
  );
  expect(failure).toMatchObject({ kind: "busy", reason: "RATE_LIMITED", retryAfter: 2500 });
  expect(isPassing(failure)).toBe(true);
});

test("a detail that is cut off leaves the error as it is", () => {
  const whole = info("ACCESS_DENIED");
  for (let length = 0; length < whole.length; length++) {
    const failure = failureOf(thrown(Code.PermissionDenied, ["google.rpc.ErrorInfo", whole.subarray(0, length)]));
    expect(failure.kind).toBe("refused");
  }
});

test("an answer that does not come is the connection's failure, and passes", () => {
  const failure = failureOf(new TypeError("Failed to fetch"));
  expect(failure.kind).toBe("unreachable");
  expect(isPassing(failure)).toBe(true);
});

test("a session that ended is not a refusal", () => {
  expect(failureOf(thrown(Code.Unauthenticated)).kind).toBe("signedOut");
});
