// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { defaultRangeExtractor, useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef, useState, useSyncExternalStore } from "react";

export const narrowQuery = "(max-width: 45rem)";

const subscribeToWidth = (listener: () => void) => {
  const media = matchMedia(narrowQuery);
  media.addEventListener("change", listener);
  return () => media.removeEventListener("change", listener);
};

/** Reports whether the screen is narrow, for what CSS alone cannot decide. */
export const useNarrow = () => useSyncExternalStore(subscribeToWidth, () => matchMedia(narrowQuery).matches);

/** A browser draws nothing that is higher, by far: a list of two billion rows would be none. */
const mostRows = 500_000;

/**
 * Shows rows of one height, of which only those in sight are in the page. One row is in the tab order. It stays in the
 * page when it scrolls out of sight, so the focus is never lost. Each row has its number in data-index.
 */
export function useRows({ count: all, height, start = 0 }: { count: number; height: number; start?: number }) {
  const count = Math.max(0, Math.min(all, mostRows));
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(start);
  const current = Math.min(active, Math.max(0, count - 1));
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 12,
    rangeExtractor: (range) => {
      const indexes = defaultRangeExtractor(range);
      if (current < count && !indexes.includes(current)) indexes.push(current);
      return indexes.sort((a, b) => a - b);
    },
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the sizes depend on the width of the screen alone
  useEffect(() => virtual.measure(), [height]);

  const focus = (index: number) => {
    const next = Math.max(0, Math.min(count - 1, index));
    setActive(next);
    virtual.scrollToIndex(next);
    // The row may appear with the next render only.
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus());
  };

  /** Moves the focus by the key, and reports whether the key does that. Keys of what is in a row are its own. */
  const move = (event: KeyboardEvent): boolean => {
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / height) - 2);
    const moves: Record<string, number> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: count - 1,
    };
    const to = moves[event.key];
    if (to === undefined) return false;
    event.preventDefault();
    focus(to);
    return true;
  };

  return { scroller, virtual, current, setActive, focus, move };
}

/** Reports whether a key was pressed on a row itself, without a modifier. */
export const isOnRow = (event: KeyboardEvent): boolean =>
  (event.target as HTMLElement).dataset.index !== undefined && !event.altKey && !event.metaKey && !event.shiftKey;
