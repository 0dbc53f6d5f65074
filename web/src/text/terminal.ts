// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count } from "./en.ts";

// The words of terminals and of their recordings. Their pages load them.

export const terminal = {
  open: "Terminal",
  opensWindow: "Opens a window of its own",
  title: (pod: string) => `Terminal in ${pod}`,
  noPod: "Terminals open from a pod",
  noPodBody: "This address names no pod. Choose one on the page of its service, among its objects or in its logs.",

  // Before it begins.
  container: "Container",
  defaultContainer: "The pod's default",
  shell: "Shell",
  start: "Start",
  startAgain: "Start again",
  asking: "Asking whether you may…",
  recorded: "Recorded",
  rules: {
    loading: "The hub has not said yet whether it records this session.",
    unknown: "The hub did not say whether it records this session. Assume that it does.",
    none: "This session is not recorded.",
    output: "This session is recorded: everything that appears in the terminal.",
    input: "This session is recorded: everything that appears in the terminal, and every key, passwords included.",
    who: "People who may read recordings can replay it.",
    required: "If the recording ends, the session does.",
  },
  mayNot: (reason: string) => `You may not open a terminal here: ${reason}`,
  mayNotHub: "your bindings do not allow get of pods/exec",
  mayNotCluster: "the cluster's RBAC does not allow get of pods/exec",

  // While it runs.
  screen: "Terminal. Shift and F6 leave it.",
  leave: "Shift F6 leaves the terminal",
  connecting: "Connecting…",
  running: "Running",
  end: "End",
  reader: "Screen reader",
  skipped: (bytes: string) => `Output came faster than a screen can show it, so ${bytes} were left out.`,
  paste: {
    title: (lines: number) => `Paste ${count(lines, "line", "lines")}?`,
    body: "A shell runs each line as soon as it arrives.",
    more: (n: number) => `… and ${count(n, "more character", "more characters")}`,
    verb: "Paste",
  },

  // After it.
  exited: (code: number) =>
    code === 0
      ? "The program has ended."
      : code > 128 && code < 160
        ? `The program was ended by signal ${code - 128} (exit code ${code}).`
        : `The program has ended with exit code ${code}.`,
  failed: "The container could not run it",
  noShell: "The container has no such program. Try the other shell, or a debug container from the command line.",
  ended: "You have ended the session.",
  lost: {
    1001: "The hub is restarting, so the session has ended. Start another one.",
    1008: "Your access was withdrawn, so the hub has ended the session.",
    1014: "The cluster's agent has lost its connection, so the session has ended.",
  } as Record<number, string>,
  lostOther: "The connection has broken. What ran in the terminal may still run.",
  refused: "The session could not begin",
  refusedBody:
    "Neither the hub nor the cluster said why. A proxy on the way may not let WebSockets pass; the command line does not need them.",
};
