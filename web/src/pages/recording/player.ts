// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { CastEvent, Size } from "../../parts/cast.ts";
import type { Screen } from "../../parts/xterm.ts";

/** A screen is given so many characters at once. */
const batch = 256 * 1024;

/**
 * Drawer brings a screen to a place in a recording. A place before the present one begins again from the first event. It
 * draws piece by piece, so another place may be wanted meanwhile.
 */
export class Drawer {
  readonly #screen: Screen;
  readonly #events: readonly CastEvent[];
  readonly #size: () => Size;
  #drawn = 0;
  #wanted = 0;
  #isFresh = false;
  #isBusy = false;
  #isOver = false;

  constructor(screen: Screen, events: readonly CastEvent[], size: () => Size) {
    this.#screen = screen;
    this.#events = events;
    this.#size = size;
  }

  /** Draws the first so many events. */
  to(count: number): void {
    this.#wanted = count;
    if (count < this.#drawn) this.#isFresh = false;
    if (!this.#isBusy) void this.#draw();
  }

  end(): void {
    this.#isOver = true;
  }

  async #draw(): Promise<void> {
    this.#isBusy = true;
    while (!this.#isOver && (!this.#isFresh || this.#drawn < this.#wanted)) {
      if (!this.#isFresh) {
        this.#screen.reset();
        this.#screen.resize(this.#size());
        this.#drawn = 0;
        this.#isFresh = true;
      }
      let output = "";
      while (this.#drawn < this.#wanted && output.length < batch) {
        const event = this.#events[this.#drawn];
        if (event?.size) {
          if (output !== "") break;
          this.#screen.resize(event.size);
        }
        output += event?.output ?? "";
        this.#drawn += 1;
      }
      if (output !== "") {
        await new Promise<void>((resolve) => {
          if (!this.#screen.write(output, resolve)) resolve();
        });
      }
    }
    this.#isBusy = false;
  }
}
