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
  cluster: "Cluster",
  namespace: "Namespace",
  pod: "Pod",
  container: "Container",
  defaultContainer: "The pod's default",
  shell: "Shell",
  start: "Start",
  startAgain: "Start again",
  keys: "Your keys go to the program. Shift F6 leaves the terminal, and a paste of several lines asks you first.",
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

export const recordings = {
  noneYet: "No recording",
  noneBody:
    "The hub records terminals where its operator has set a folder for that (tunnel-record-dir). Recordings appear here as sessions begin.",
  noMatch: "No recording matches",
  question: "Which recordings",
  by: "Person",
  cluster: "Cluster",
  since: "Since",
  list: "Recordings",
  columns: ["Began", "Person", "Where", "Command", "Length", "Size", ""],
  attached: "attached",
  play: "Play",
  playOf: (person: string, pod: string) => `Play the session of ${person} in ${pod}`,
  older: "Show older ones",
  end: "No older recordings match.",
  unanswered: (replicas: string) => `Recordings are missing, because a replica of the hub did not answer: ${replicas}`,
  anyReplica: "it could not be found out which",

  title: (pod: string) => (pod === "" ? "Recording" : `Session in ${pod}`),
  screen: "What was on the terminal",
  player: "Player",
  start: "Play",
  pause: "Pause",
  again: "Play again",
  position: "Position",
  timeOf: (at: string, length: string) => `${at} of ${length}`,
  speed: "Speed",
  times: (n: number) => `${n} ×`,
  skipIdle: "Skip idle times",
  loading: (size: string) => `${size} have arrived; more is on its way.`,
  empty: "Nothing was written to this terminal.",
  faults: {
    foreign: "This is no recording of a terminal",
    foreignBody: "Its first line is not the one of an asciicast of version 2.",
    damaged: (line: number) => `The recording is damaged in line ${line}. What precedes it is shown.`,
    torn: "The recording breaks off within its last line: the session still runs, or its disk was full.",
    long: "The recording is longer than a page holds, so the rest is left out. The command line saves all of it.",
    cut: "The rest of the recording did not arrive",
  },
  find: "Find in the output",
  findPlaceholder: "Text on the terminal",
  matches: (n: number, most: number) =>
    n === 0 ? "Nothing found" : n >= most ? `The first ${count(n, "place", "places")}` : count(n, "place", "places"),
};

/** Returns a length of time as players show it: 1:05, or 2:03:04. */
export function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  const two = (n: number) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
