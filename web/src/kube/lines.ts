// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Lines of an answer, as they arrive: the log of a container, or a watch, whose events are one line each.

/** Line is one line of an answer, without its end. */
export interface Line {
  text: string;
  /** How many bytes of the line were left out, because it is longer than a line may be. */
  cut: number;
}

/** How many bytes of a line are kept. */
export const mostBytes = 64 * 1024;

const lineEnd = 10;
/** So many bytes are as much for the page as a line is, besides its own. */
const lineCost = 64;

/**
 * Yields the lines of each chunk together, so that a fast log costs one step a chunk. It holds one unfinished line at
 * most, and of that at most as many bytes as are kept. It ends after so many bytes in all, whatever the other side sends,
 * and cancels the answer when its reader stops.
 */
export async function* readLines(
  body: ReadableStream<Uint8Array>,
  mostInAll: number,
  most = mostBytes,
): AsyncGenerator<Line[]> {
  let bytesLeft = mostInAll;
  let linesLeft = Math.ceil(mostInAll / lineCost);
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let held: Uint8Array[] = [];
  let size = 0;
  let cut = 0;

  const keep = (part: Uint8Array) => {
    const room = Math.min(part.length, most - size);
    // A copy, or a short line would keep its whole chunk.
    if (room > 0) held.push(part.slice(0, room));
    size += room;
    cut += part.length - room;
  };
  const finish = (): Line => {
    const whole = new Uint8Array(size);
    let at = 0;
    for (const part of held) {
      whole.set(part, at);
      at += part.length;
    }
    const text = decoder.decode(whole);
    const line = { text: text.endsWith("\r") ? text.slice(0, -1) : text, cut };
    held = [];
    size = cut = 0;
    return line;
  };

  try {
    while (bytesLeft > 0 && linesLeft > 0) {
      const { done, value: sent } = await reader.read();
      if (done) break;
      const value = sent.subarray(0, bytesLeft);
      bytesLeft -= value.length;
      const found: Line[] = [];
      let from = 0;
      for (let end = value.indexOf(lineEnd); end >= 0 && linesLeft > 0; end = value.indexOf(lineEnd, from)) {
        keep(value.subarray(from, end));
        found.push(finish());
        linesLeft -= 1;
        from = end + 1;
      }
      if (linesLeft > 0) keep(value.subarray(from));
      if (found.length > 0) yield found;
    }
    if (size > 0 || cut > 0) yield [finish()];
  } finally {
    await reader.cancel().catch(() => {});
  }
}
