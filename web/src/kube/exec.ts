// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Failure, failureOf } from "../hub/failure.ts";
import type { Clusters, Socket } from "../hub/hub.ts";
import { readJson } from "./api.ts";
import { resourcePath } from "./path.ts";

// A program in a container, over a WebSocket through the hub. Each message begins with the number of its channel, as
// v5.channel.k8s.io and v4.channel.k8s.io have it. The hub passes the messages on and reads along to record them.

/** Target is what runs where. The cluster is named by its path. */
export interface Target {
  cluster: string;
  namespace: string;
  pod: string;
  /** Empty means the pod's default. */
  container: string;
  command: readonly string[];
}

export interface Size {
  columns: number;
  rows: number;
}

/** Ending is why a session is over. */
export type Ending =
  | { is: "exited"; code: number }
  /** The cluster could not run the program, in its words. */
  | { is: "failed"; message: string }
  /** The connection ended before the program did. Closed is the code of the WebSocket. */
  | { is: "lost"; closed: number }
  /** It was never open. Without a failure, nobody said why. */
  | { is: "refused"; failure: Failure | undefined };

export interface Listener {
  onOpen: () => void;
  /** Output of the program, and of its errors. A character may be in two pieces. */
  onOutput: (bytes: Uint8Array) => void;
  /** Is called once, and last. */
  onEnd: (ending: Ending) => void;
}

const stdin = 0;
const stdout = 1;
const stderr = 2;
const status = 3;
const resize = 4;
const close = 255;

export const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"] as const;

/** A message to the program has so many bytes at most. */
const mostMessage = 16 * 1024;
/** The last word of a program is a short object. */
const mostStatus = 64 * 1024;

const utf8 = new TextEncoder();

export function execPath({ namespace, pod, container, command }: Target): string {
  const query = new URLSearchParams({ stdin: "true", stdout: "true", tty: "true" });
  if (container !== "") query.set("container", container);
  for (const word of command) query.append("command", word);
  return `${resourcePath("v1", namespace, "pods", pod, "exec")}?${query}`;
}

interface RawStatus {
  status?: string;
  reason?: string;
  message?: string;
  details?: { causes?: { reason?: string; message?: string }[] };
}

/** Returns how the program ended, or undefined if the text is not yet whole. */
export function endingOf(text: string): Ending | undefined {
  let said: RawStatus | null;
  try {
    said = JSON.parse(text) as RawStatus | null;
  } catch {
    return undefined;
  }
  if (typeof said !== "object" || said === null) return { is: "failed", message: text.slice(0, 2000) };
  if (said.status === "Success") return { is: "exited", code: 0 };
  const causes = Array.isArray(said.details?.causes) ? said.details.causes : [];
  const code = Number(causes.find((cause) => cause?.reason === "ExitCode")?.message);
  if (said.reason === "NonZeroExitCode" && Number.isInteger(code)) return { is: "exited", code };
  return { is: "failed", message: String(said.message ?? "").slice(0, 2000) };
}

/** Asks over HTTP for what a browser hides of a WebSocket that was refused. */
async function whyRefused(clusters: Clusters, target: Target, signal: AbortSignal): Promise<Failure | undefined> {
  try {
    await readJson(clusters, target.cluster, execPath(target), signal);
  } catch (thrown) {
    const failure = failureOf(thrown);
    // A cluster that would have run it asks for a WebSocket, which says nothing about the one before.
    if (!/upgrade request required/i.test(failure.message) && !signal.aborted) return failure;
  }
  return undefined;
}

/** Session is a program that runs, or is about to. */
export interface Session {
  type: (text: string) => void;
  /** Sends bytes, each a character of the text, as old mouse reports are. */
  typeBytes: (text: string) => void;
  resize: (size: Size) => void;
  end: () => void;
}

/** Runs a program with a terminal of that size. The listener learns everything else. */
export function runProgram(clusters: Clusters, target: Target, size: Size, listener: Listener): Session {
  const over = new AbortController();
  let socket: Socket | undefined;
  let wanted = size;
  let isOpen = false;
  let word = "";
  const decoder = new TextDecoder();

  const finish = (ending: Ending) => {
    if (over.signal.aborted) return;
    over.abort();
    socket?.close();
    listener.onEnd(ending);
  };
  const send = (channel: number, bytes: Uint8Array) => {
    if (!socket || !isOpen || over.signal.aborted) return;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    socket.send(message);
  };
  const sendSize = () => send(resize, utf8.encode(JSON.stringify({ Width: wanted.columns, Height: wanted.rows })));
  const take = (message: Uint8Array) => {
    const channel = message[0];
    const bytes = message.subarray(1);
    if (bytes.length === 0) return;
    if (channel === stdout || channel === stderr) listener.onOutput(bytes);
    else if (channel === status && word.length < mostStatus) {
      word += decoder.decode(bytes, { stream: true });
      const ending = endingOf(word);
      if (ending) finish(ending);
    }
  };

  const open = async () => {
    const opened = await clusters.connect(target.cluster, execPath(target), protocols);
    if (over.signal.aborted) {
      opened.close();
      return;
    }
    socket = opened;
    opened.binaryType = "arraybuffer";
    opened.addEventListener("open", () => {
      isOpen = true;
      listener.onOpen();
      sendSize();
    });
    opened.addEventListener("message", (event) => {
      const { data } = event as MessageEvent<unknown>;
      if (data instanceof ArrayBuffer && !over.signal.aborted) take(new Uint8Array(data));
    });
    opened.addEventListener("close", (event) => {
      if (over.signal.aborted) return;
      if (isOpen) {
        const said = word === "" ? undefined : endingOf(word);
        finish(said ?? { is: "lost", closed: (event as CloseEvent).code });
        return;
      }
      void whyRefused(clusters, target, over.signal).then((failure) => finish({ is: "refused", failure }));
    });
  };
  open().catch((thrown) => finish({ is: "refused", failure: failureOf(thrown) }));

  const sendInput = (bytes: Uint8Array) => {
    for (let at = 0; at < bytes.length; at += mostMessage) send(stdin, bytes.subarray(at, at + mostMessage));
  };
  return {
    type: (text) => sendInput(utf8.encode(text)),
    typeBytes: (text) => sendInput(Uint8Array.from(text, (character) => character.charCodeAt(0) & 255)),
    resize(next) {
      wanted = next;
      sendSize();
    },
    end() {
      if (over.signal.aborted) return;
      // Of the two protocols, the newer one can say that no more input comes.
      if (socket?.protocol === protocols[0]) send(close, Uint8Array.of(stdin));
      over.abort();
      socket?.close();
    },
  };
}
