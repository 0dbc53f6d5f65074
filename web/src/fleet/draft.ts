// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from "react";
import { useHub } from "../hub/hub.ts";

// What a person has typed and not sent outlives the end of their session: they sign in again, and find it. It is in
// memory alone, so no storage of the browser has it, and it is for the same person only.

/** So many drafts are kept. The oldest goes first. */
const most = 10;
const kept = new Map<string, unknown>();

export interface Draft<T> {
  /** What was typed before the session ended. */
  found: T | undefined;
  keep: (typed: T) => void;
  forget: () => void;
}

/**
 * Returns the draft of a place, such as an action and its object. A draft is gone with its component, except where the
 * component goes because the session has ended.
 */
export function useDraft<T>(place: string): Draft<T> {
  const { tokens } = useHub();
  const now = tokens.current();
  const key = JSON.stringify([now.state === "in" ? now.person.name : "", place]);
  const [found] = useState(() => kept.get(key) as T | undefined);
  useEffect(
    () => () => {
      const left = tokens.current();
      if (left.state !== "out" || !left.wasIn) kept.delete(key);
    },
    [key, tokens],
  );
  return {
    found,
    keep(typed) {
      kept.delete(key);
      kept.set(key, typed);
      const [oldest] = kept.keys();
      if (kept.size > most && oldest !== undefined) kept.delete(oldest);
    },
    forget: () => void kept.delete(key),
  };
}
