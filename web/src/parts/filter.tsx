// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Ref, useEffect, useId, useImperativeHandle, useRef, useState } from "react";
import { text } from "../text/en.ts";
import { Button } from "./button.tsx";
import styles from "./filter.module.css";
import { Icon } from "./icon.tsx";

const pause = 300;

/**
 * FilterField edits a filter in the hub's language. It reports a text once the person pauses or presses Enter, so that
 * the hub is not asked for each letter. Escape empties it. The hub's objection to a filter is shown below it.
 */
export function FilterField({
  value,
  onChange,
  label,
  error,
  placeholder = text.filterPlaceholder("Service"),
  ref,
}: {
  value: string;
  onChange: (filter: string) => void;
  label: string;
  error?: string | undefined;
  placeholder?: string;
  ref?: Ref<HTMLInputElement>;
}) {
  const [typed, setTyped] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const reported = useRef(value);
  const errorId = useId();
  useImperativeHandle(ref, () => input.current as HTMLInputElement, []);

  // A value from outside, such as the back button's, replaces what is typed; an echo of our own report does not.
  useEffect(() => {
    if (value === reported.current) return;
    reported.current = value;
    setTyped(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const report = (next: string) => {
    clearTimeout(timer.current);
    const trimmed = next.trim();
    if (trimmed === reported.current) return;
    reported.current = trimmed;
    onChange(trimmed);
  };
  const change = (next: string) => {
    setTyped(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => report(next), pause);
  };

  return (
    <search className={styles.filter}>
      <div className={styles.field}>
        <Icon name="search" />
        <input
          ref={input}
          type="text"
          inputMode="search"
          aria-label={label}
          placeholder={placeholder}
          value={typed}
          maxLength={4096}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          aria-invalid={error !== undefined || undefined}
          aria-describedby={error === undefined ? undefined : errorId}
          onChange={(event) => change(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") report(typed);
            if (event.key === "Escape" && typed !== "") {
              event.preventDefault();
              setTyped("");
              report("");
            }
          }}
        />
        {typed === "" ? (
          <kbd className={styles.key}>/</kbd>
        ) : (
          <Button
            kind="quiet"
            icon="close"
            iconOnly
            onClick={() => {
              setTyped("");
              report("");
              input.current?.focus();
            }}
          >
            {text.clearFilter}
          </Button>
        )}
      </div>
      {error !== undefined && (
        <p id={errorId} className={styles.error} role="alert">
          {error}
        </p>
      )}
    </search>
  );
}
