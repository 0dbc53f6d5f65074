// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { clusterApi, type FakeCluster } from "./cluster.ts";
import type { Answers } from "./hub.ts";

// A cluster that runs programs in containers: its messages have the form in which an API server of v1.36 sends them.

const utf8 = new TextEncoder();

/** FakeSocket is a WebSocket whose other end a test holds. */
export class FakeSocket extends EventTarget {
  binaryType: BinaryType = "blob";
  bufferedAmount = 0;
  protocol = "";
  isClosed = false;
  readonly sent: Uint8Array[] = [];

  constructor(
    readonly url: string,
    readonly protocols: string[],
  ) {
    super();
  }

  send(message: string | ArrayBufferLike | Blob | ArrayBufferView<ArrayBufferLike>) {
    if (message instanceof Uint8Array) this.sent.push(message);
  }

  close() {
    this.isClosed = true;
  }

  /** Has the cluster agree to speak a protocol. */
  open(protocol = "v5.channel.k8s.io") {
    this.protocol = protocol;
    this.dispatchEvent(new Event("open"));
  }

  /** Has the cluster send bytes, or a text, in a channel. */
  say(channel: number, data: string | Uint8Array) {
    const bytes = typeof data === "string" ? utf8.encode(data) : data;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    this.dispatchEvent(new MessageEvent("message", { data: message.buffer }));
  }

  /** Has the connection end. */
  end(code: number) {
    this.dispatchEvent(new CloseEvent("close", { code }));
  }

  /** Returns what was sent in a channel. */
  heard(channel: number): string {
    return this.sent
      .filter((message) => message[0] === channel)
      .map((message) => new TextDecoder().decode(message.subarray(1)))
      .join("");
  }
}

export const success = '{"metadata":{},"status":"Success"}';
export const exitCode = (code: number) =>
  `{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status ${code}","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"${code}"}]}}`;
export const noSuchShell = JSON.stringify({
  metadata: {},
  status: "Failure",
  message:
    'Internal error occurred: error executing command in container: exec: "bash": executable file not found in $PATH',
  reason: "InternalError",
  code: 500,
});

/** Returns the answers of a hub with a cluster in which the person may run programs, and the sockets that were opened. */
export function execHub(change: Partial<FakeCluster> = {}, isAllowed = true) {
  const sockets: FakeSocket[] = [];
  const reviews: unknown[] = [];
  const { kube } = clusterApi({
    pods: [{ name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9", containers: ["web", "proxy"] }],
    deployments: ["cart"],
    ...change,
  });
  const answers: Partial<Answers> = {
    fleet: { reviewAccess: () => ({ allowed: true }) },
    kube(path, signal, accept, init) {
      if (!path.endsWith("/selfsubjectaccessreviews")) return kube(path, signal, accept);
      reviews.push(JSON.parse(String(init.body)));
      const status = isAllowed ? { allowed: true } : { allowed: false, reason: "no RBAC policy matched" };
      return new Response(JSON.stringify({ kind: "SelfSubjectAccessReview", status }), { status: 201 });
    },
    around: {
      socket(url, protocols) {
        const socket = new FakeSocket(url, protocols);
        sockets.push(socket);
        return socket;
      },
    },
  };
  return { answers, sockets, reviews };
}
