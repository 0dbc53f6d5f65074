// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/** Entry is one line of a log, of one of several containers. */
export interface Entry {
  /** When the line was written, in milliseconds with a fraction. */
  at: number;
  /** The container, as its number among the sources. */
  source: number;
  text: string;
  /** How many bytes of the line were left out. */
  cut: number;
}

/**
 * Ring holds the newest lines of several logs in the order of their times. It holds a bounded number of lines and of
 * characters, whatever the logs write, and counts what it dropped.
 */
export class Ring {
  readonly #entries: Entry[] = [];
  readonly #mostLines: number;
  readonly #mostCharacters: number;
  #characters = 0;
  #dropped = 0;

  constructor(mostLines = 100_000, mostCharacters = 32 * 1024 * 1024) {
    this.#mostLines = mostLines;
    this.#mostCharacters = mostCharacters;
  }

  /** The lines, the oldest first. They are valid until the next call of add. */
  get entries(): readonly Entry[] {
    return this.#entries;
  }

  /** How many lines were dropped because newer ones needed their place. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Adds lines in any order. Lines of one source that have the same time stay in their order. */
  add(batch: readonly Entry[]): void {
    if (batch.length === 0) return;
    const sorted = batch.toSorted((a, b) => a.at - b.at);
    const oldest = sorted[0]?.at ?? 0;
    // Containers are read one after the other, so the newest lines overlap a little.
    let from = this.#entries.length;
    while (from > 0 && (this.#entries[from - 1]?.at ?? 0) > oldest) from -= 1;
    const overlap = this.#entries.splice(from);
    let left = 0;
    for (const entry of sorted) {
      for (let next = overlap[left]; next && next.at <= entry.at; next = overlap[left]) {
        this.#entries.push(next);
        left += 1;
      }
      this.#entries.push(entry);
      this.#characters += entry.text.length;
    }
    for (const entry of overlap.slice(left)) this.#entries.push(entry);
    this.#drop();
  }

  #drop() {
    // Dropping moves all lines, so it waits until there is a tenth too much.
    const isOver = this.#entries.length > this.#mostLines * 1.1 || this.#characters > this.#mostCharacters * 1.1;
    if (!isOver) return;
    let count = 0;
    while (
      count < this.#entries.length &&
      (this.#entries.length - count > this.#mostLines || this.#characters > this.#mostCharacters)
    ) {
      this.#characters -= this.#entries[count]?.text.length ?? 0;
      count += 1;
    }
    this.#entries.splice(0, count);
    this.#dropped += count;
  }
}
