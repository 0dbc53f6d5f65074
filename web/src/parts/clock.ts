// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// One clock for all ages of a page, so that they change together and in one render.

const step = 5000;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let shown = Date.now();

/** Returns the time that is shown, which is at most a step old. */
export const now = (): number => shown;

/** Calls the listener at each step, until the function that it returns is called. Without a listener nothing runs. */
export function subscribeToClock(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    shown = Date.now();
    timer = setInterval(() => {
      shown = Date.now();
      for (const each of listeners) each();
    }, step);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}
