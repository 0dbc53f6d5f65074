// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useSyncExternalStore } from "react";
import { text } from "../text/en.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icon.tsx";
import styles from "./status.module.css";

/** Message is a sentence about what just happened. */
interface Message {
  id: number;
  text: string;
  isBad: boolean;
}

let messages: readonly Message[] = [];
let count = 0;
const listeners = new Set<() => void>();
const stay = 6000;

function set(next: readonly Message[]) {
  messages = next;
  for (const listener of listeners) listener();
}

/** Removes a message. */
export function dismiss(id: number): void {
  set(messages.filter((message) => message.id !== id));
}

/**
 * Shows a sentence, and has screen readers read it. A failure stays until the person removes it; other sentences leave
 * after some seconds. At most three are shown.
 */
export function say(sentence: string, isBad = false): void {
  count += 1;
  const id = count;
  set([...messages.filter((message) => message.text !== sentence), { id, text: sentence, isBad }].slice(-3));
  if (!isBad) setTimeout(() => dismiss(id), stay);
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

/** StatusMessages is where sentences appear. It is in the page from its beginning, or screen readers would miss them. */
export function StatusMessages() {
  const shown = useSyncExternalStore(subscribe, () => messages);
  return (
    <div className={styles.place} role="status" aria-live="polite">
      {shown.map((message) => (
        <div key={message.id} className={styles.message}>
          <Icon name={message.isBad ? "cross" : "check"} />
          <span>{message.text}</span>
          <Button kind="quiet" icon="close" iconOnly onClick={() => dismiss(message.id)}>
            {text.dismiss}
          </Button>
        </div>
      ))}
    </div>
  );
}
