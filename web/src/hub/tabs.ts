// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// The other tabs of the same browser that show this hub.
//
// What is sent to them reaches each page of the hub's origin, and no other: not a page of another origin, not another
// browser, not a storage. The pages of the origin are the hub's own. Answers of clusters come from it, too, but the
// tunnel puts them into a sandbox (Content-Security-Policy), in which a page has an origin of its own. If a hostile page
// ran in the origin anyway, it would gain nothing here: the browser presents the session's cookie for it, so it could
// ask the hub for an access token itself.

/** Tabs speaks to the other tabs of the browser. It carries words, and looks into none of them. */
export interface Tabs {
  /**
   * Runs work while no other tab runs its own. hasWaited: another one has just finished. A tab that hangs does not stop
   * the others: after some seconds they go on without it, as they do in a browser without locks.
   */
  alone<T>(work: (hasWaited: boolean) => Promise<T>): Promise<T>;
  /** Sends a word to every other tab. */
  tell(word: unknown): void;
  /** Calls the listener with each word of another tab. */
  onTold(listener: (word: unknown) => void): void;
}

/** A tab that knows of no other. */
export const noTabs: Tabs = { alone: (work) => work(false), tell: () => {}, onTold: () => {} };

const name = "leat.token";
const patience = 10_000;

/** Returns the tabs of this browser. Locks need https, or the own machine; without them each tab is on its own. */
export function browserTabs(): Tabs {
  const locks: LockManager | undefined = navigator.locks;
  const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(name);
  return {
    async alone(work) {
      if (!locks) return work(false);
      const atOnce = await locks.request(name, { ifAvailable: true }, async (lock) =>
        lock ? { result: await work(false) } : undefined,
      );
      if (atOnce) return atOnce.result;
      const isOver = AbortSignal.timeout(patience);
      let hasBegun = false;
      try {
        return await locks.request(name, { signal: isOver }, () => {
          hasBegun = true;
          return work(true);
        });
      } catch (error) {
        if (hasBegun || !isOver.aborted) throw error;
        return work(true);
      }
    },
    tell: (word) => channel?.postMessage(word),
    onTold: (listener) => channel?.addEventListener("message", (event) => listener(event.data)),
  };
}
