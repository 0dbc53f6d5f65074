// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/** Builds compares the build of the UI that runs here with the one that the hub serves now. */
export interface Builds {
  /** Asks the hub, and calls the listeners if the answer is another one than before. It never fails. */
  check(): Promise<void>;
  /** Reports whether the hub served another build when it was last asked. */
  isNew(): boolean;
  subscribe(listener: () => void): () => void;
  /** Loads the page again. Only a person decides that. */
  reload(): void;
}

/**
 * Returns the script of a page of the UI, or undefined if the text is something else, such as the answer of a proxy. The
 * bundler names it by the content of the whole build.
 */
export const scriptOf = (html: string): string | undefined =>
  /<script\b[^>]*\btype="module"[^>]*\bsrc="([^"]+)"/.exec(html)?.[1];

/** Returns the builds of a hub. own is the script that runs, and read returns the hub's page of now. */
export function createBuilds(own: string | undefined, read: () => Promise<string>, reload: () => void): Builds {
  let isNew = false;
  const listeners = new Set<() => void>();
  return {
    async check() {
      let served: string | undefined;
      try {
        served = scriptOf(await read());
      } catch {
        // A hub that does not answer says nothing about its build.
      }
      if (own === undefined || served === undefined || isNew === (served !== own)) return;
      isNew = served !== own;
      for (const listener of listeners) listener();
    },
    isNew: () => isNew,
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    reload,
  };
}

/** The builds of a page that is not served by a hub, as in tests. */
export const noBuilds: Builds = createBuilds(
  undefined,
  async () => "",
  () => {},
);

export const browserBuilds = (): Builds =>
  createBuilds(
    document.querySelector('script[type="module"][src]')?.getAttribute("src") ?? undefined,
    async () => (await fetch("/ui/", { cache: "no-store", credentials: "omit", redirect: "error" })).text(),
    () => location.reload(),
  );
