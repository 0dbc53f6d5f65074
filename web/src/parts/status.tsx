// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useState, useSyncExternalStore } from "react";
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

/**
 * StatusMessages is where sentences appear. The latest one is in a live region, which is in the page from its beginning,
 * or screen readers would miss it. The earlier ones have been read, so they are outside of it, and fold into one line
 * where there are several.
 */
export function StatusMessages() {
  const shown = useSyncExternalStore(subscribe, () => messages);
  const [isOpen, setOpen] = useState(false);
  const latest = shown.find((message) => message.id === count);
  const earlier = shown.filter((message) => message !== latest);
  if (isOpen && earlier.length < 2) setOpen(false);
  const isFolded = earlier.length > 1 && !isOpen;
  return (
    <div className={styles.place}>
      {isFolded ? (
        <div className={styles.message}>
          <Button kind="quiet" icon="chevron" aria-expanded={false} onClick={() => setOpen(true)}>
            {text.earlierMessages(earlier.length)}
          </Button>
        </div>
      ) : (
        earlier.map((message) => <Sentence key={message.id} message={message} />)
      )}
      <div role="status" aria-atomic="true">
        {latest && <Sentence key={latest.id} message={latest} />}
      </div>
    </div>
  );
}

function Sentence({ message }: { message: Message }) {
  return (
    <div className={styles.message}>
      <Icon name={message.isBad ? "cross" : "check"} />
      <span>{message.text}</span>
      <Button kind="quiet" icon="close" iconOnly onClick={() => dismiss(message.id)}>
        {text.dismiss}
      </Button>
    </div>
  );
}
