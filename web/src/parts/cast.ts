// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { plainOf } from "./ansi.ts";

// Recordings of terminals: asciicast v2. What is in one was written by a program in a cluster, so each part is checked,
// and what is kept is bounded. A recording that breaks off, or is damaged, is played as far as it is right.

export interface Size {
  columns: number;
  rows: number;
}

/** Output is what a program wrote at a time, in seconds from the beginning, and a new size of the terminal. */
export interface CastEvent {
  at: number;
  output: string;
  size?: Size;
}

/** Fault is why a recording is not whole. */
export type Fault =
  /** The first line is not the one of an asciicast of version 2. */
  | { is: "foreign" }
  /** A line is damaged. What precedes it is played. */
  | { is: "damaged"; line: number }
  /** The last line has no end: it is still being written, or the disk was full. */
  | { is: "torn" }
  /** There is more than the page holds. */
  | { is: "long" };

export const bounds = {
  /** Characters of all output. */
  output: 24 * 1024 * 1024,
  events: 400_000,
  line: 2 * 1024 * 1024,
  columns: 500,
  rows: 300,
  /** Seconds: a week. A clock that jumped must not make a time line of years. */
  length: 7 * 86_400,
};

const sizeOf = (columns: unknown, rows: unknown): Size | undefined =>
  Number.isInteger(columns) && Number.isInteger(rows) && Number(columns) > 0 && Number(rows) > 0
    ? { columns: Math.min(Number(columns), bounds.columns), rows: Math.min(Number(rows), bounds.rows) }
    : undefined;

const mostAbout = 300;

function aboutOf(raw: unknown): Record<string, string> {
  const about: Record<string, string> = {};
  const given = typeof raw === "object" && raw !== null ? (raw as Record<string, unknown>) : {};
  for (const name of ["subject", "cluster", "namespace", "pod", "container"]) {
    const value = given[name];
    if (typeof value === "string" && value !== "") about[name] = value.slice(0, mostAbout);
  }
  return about;
}

/** CastReader reads a file piece by piece, and has what it has read so far. */
export class CastReader {
  readonly events: CastEvent[] = [];
  size: Size = { columns: 80, rows: 24 };
  /** What the hub wrote about the session: who, and where. */
  about: Readonly<Record<string, string>> = {};
  fault: Fault | undefined;
  bytes = 0;
  readonly #decoder = new TextDecoder();
  #rest = "";
  #lines = 0;
  #output = 0;
  #last = 0;

  /** Reports whether more of the file is of use. */
  get isOver(): boolean {
    return this.fault !== undefined;
  }

  /** Returns how long the recording is, in seconds. */
  get length(): number {
    return this.#last;
  }

  read(piece: Uint8Array): void {
    if (this.isOver) return;
    this.bytes += piece.length;
    this.#take(this.#decoder.decode(piece, { stream: true }));
  }

  /** Says that the file has no more bytes. */
  end(): void {
    if (this.isOver) return;
    this.#take(this.#decoder.decode());
    if (this.isOver) return;
    if (this.#lines === 0) this.fault = { is: "foreign" };
    else if (this.#rest.trim() !== "") this.fault = { is: "torn" };
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (this.isOver) return;
      this.#lines += 1;
      if (this.#lines === 1) this.#header(line);
      else if (line.trim() !== "") this.#event(line);
    }
    if (this.#rest.length > bounds.line) {
      this.fault = this.#lines === 0 ? { is: "foreign" } : { is: "damaged", line: this.#lines + 1 };
      this.#rest = "";
    }
  }

  #header(line: string): void {
    try {
      const header = JSON.parse(line) as Partial<Record<"version" | "width" | "height" | "leat", unknown>> | null;
      if (header?.version === 2) {
        this.size = sizeOf(header.width, header.height) ?? this.size;
        this.about = aboutOf(header.leat);
        return;
      }
    } catch {
      // It is another file.
    }
    this.fault = { is: "foreign" };
  }

  #event(line: string): void {
    let fields: unknown;
    try {
      fields = JSON.parse(line);
    } catch {
      fields = undefined;
    }
    const [time, kind, data] = Array.isArray(fields) ? fields : [];
    if (typeof time !== "number" || typeof kind !== "string" || typeof data !== "string") {
      this.fault = { is: "damaged", line: this.#lines };
      return;
    }
    // Times only grow.
    const at = Math.min(Math.max(this.#last, Number.isFinite(time) ? time : 0), bounds.length);
    if (kind === "o") {
      this.#output += data.length;
      if (this.#output > bounds.output || this.events.length >= bounds.events) {
        this.fault = { is: "long" };
        return;
      }
      this.events.push({ at, output: data });
    } else if (kind === "r") {
      const [, columns, rows] = /^(\d{1,4})x(\d{1,4})$/.exec(data) ?? [];
      const size = sizeOf(Number(columns), Number(rows));
      if (size && this.events.length < bounds.events) this.events.push({ at, output: "", size });
    }
    // Input, marks and what is newer are not shown.
    this.#last = at;
  }
}

/** The longest pause that is kept when idle times are skipped, in seconds. */
const longestPause = 1;

/** Returns the time of each event as it is played: without long pauses, if they are skipped. */
export function playTimes(events: readonly CastEvent[], skipsIdle: boolean): Float64Array {
  const times = new Float64Array(events.length);
  let last = 0;
  let played = 0;
  events.forEach(({ at }, index) => {
    const pause = at - last;
    played += skipsIdle ? Math.min(pause, longestPause) : pause;
    last = at;
    times[index] = played;
  });
  return times;
}

/** Returns how many of the times are at or before one. */
export function countUntil(times: Float64Array, at: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((times[middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export interface Match {
  /** The event in which what was looked for begins. */
  event: number;
  /** The line around it. */
  before: string;
  found: string;
  after: string;
}

const around = 60;
export const mostMatches = 200;

/**
 * Returns where a text is in the output, as a person would have read it. It looks at whole lines, which a program may
 * have written in pieces.
 */
export function findIn(events: readonly CastEvent[], wanted: string): Match[] {
  const matches: Match[] = [];
  const needle = wanted.toLowerCase();
  if (needle === "") return matches;
  let line = "";
  let starts: { at: number; event: number }[] = [];
  const look = () => {
    const plain = plainOf(line);
    const lower = plain.toLowerCase();
    for (
      let at = lower.indexOf(needle);
      at >= 0 && matches.length < mostMatches;
      at = lower.indexOf(needle, at + needle.length)
    ) {
      // Without its commands a line is shorter, so this names the event or one shortly before.
      const event = starts.findLast((start) => start.at <= at)?.event ?? 0;
      matches.push({
        event,
        before: plain.slice(Math.max(0, at - around), at),
        found: plain.slice(at, at + needle.length),
        after: plain.slice(at + needle.length, at + needle.length + around),
      });
    }
    line = "";
    starts = [];
  };
  for (const [event, { output }] of events.entries()) {
    if (matches.length >= mostMatches) break;
    output.split(/\r\n|\n|\r/).forEach((part, index) => {
      if (index > 0) look();
      if (part === "" || line.length > 64 * 1024) return;
      starts.push({ at: line.length, event });
      line += part;
    });
  }
  if (matches.length < mostMatches) look();
  return matches;
}
