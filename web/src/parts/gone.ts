// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/** GoneError is a part of the UI that the hub no longer serves, or that did not arrive. Loading the page again helps. */
export class GoneError extends Error {
  constructor(cause: unknown) {
    super("a part of the page did not load", { cause });
    this.name = "GoneError";
  }
}

/** Returns what was loaded, and names the failure, so that a page offers to load itself again rather than breaking. */
export const orGone = <T>(loading: Promise<T>): Promise<T> =>
  loading.catch((cause: unknown) => {
    throw new GoneError(cause);
  });
