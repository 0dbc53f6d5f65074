// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef } from "react";
import { type Live, type Surroundings, useLive } from "./live.ts";

/**
 * Returns the answer of a call without a stream of its own, and calls again when the version changes, such as with a
 * message of a stream about the same object. The last answer stays until the next one. One call runs at a time, because
 * a busy fleet changes more often than a slow hub answers.
 */
export function useAnswer<T>(
  key: string,
  version: string,
  ask: (signal: AbortSignal) => Promise<T>,
  env: Surroundings,
): Live<T> & { retry: () => void } {
  const of = (version: string) => ({ load: async (signal: AbortSignal) => ({ version, answer: await ask(signal) }) });
  const { value, store, ...live } = useLive<{ version: string; answer: T }>(key, () => of(version), env);
  const asked = useRef({ key, version });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version and the key are what is asked for
  useEffect(() => {
    if (asked.current.key !== key) asked.current = { key, version };
    // Another version than the asked one is on its way while the value is older.
    if (!value || value.version === version || asked.current.version !== value.version) return;
    asked.current.version = version;
    store.replace(of(version));
  }, [key, version, value, store]);
  return { ...live, value: value?.answer, retry: store.retry };
}
