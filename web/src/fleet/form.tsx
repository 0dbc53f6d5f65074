// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useId, useRef, useState } from "react";
import { Button } from "../parts/button.tsx";
import { classes } from "../parts/classes.ts";
import { text } from "../text/en.ts";
import styles from "./form.module.css";

/** Field is a value that a form asks for: a text, or one of a few choices. The first choice stands for none. */
export interface Field<Name extends string> {
  name: Name;
  label: string;
  choices?: readonly (readonly [value: string, label: string])[];
  /** What a text may be, for a person to choose or to go beyond. */
  suggestions?: readonly string[];
  /** How many characters a text may have. */
  most?: number;
  /** It is asked for seldom, so it waits behind a button until the address or the person has it. */
  isSeldom?: boolean;
}

// The hub refuses longer names.
const longest = 256;

/** SearchForm asks a question of a few fields. It is asked when the person says so, and the address holds it. */
export function SearchForm<Name extends string>({
  label,
  fields,
  value,
  verb,
  more,
  onAsk,
}: {
  label: string;
  fields: readonly Field<Name>[];
  value: Readonly<Partial<Record<Name, string>>>;
  verb: string;
  /** What the button says that shows the fields which are asked for seldom. */
  more?: string;
  onAsk: (asked: Partial<Record<Name, string>>) => void;
}) {
  const id = useId();
  const [isOpened, setOpened] = useState(false);
  // What the address asks for is always in sight.
  const isAsked = fields.some(({ name, isSeldom }) => isSeldom && value[name]);
  const form = useRef<HTMLFormElement>(null);
  // The fields keep what is typed. Another question, such as the back button's, replaces it.
  const key = JSON.stringify(Object.fromEntries(fields.map(({ name }) => [name, value[name] ?? ""])));
  useEffect(() => {
    const values: Record<string, string> = JSON.parse(key);
    const controls = form.current?.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input, select") ?? [];
    for (const control of controls) control.value = values[control.name] ?? "";
  }, [key]);

  const ask = (data: FormData) => {
    const asked: Partial<Record<Name, string>> = {};
    for (const { name } of fields) {
      const written = String(data.get(name) ?? "").trim();
      if (written !== "") asked[name] = written;
    }
    onAsk(asked);
  };
  return (
    <search aria-label={label}>
      <form
        ref={form}
        className={styles.form}
        autoComplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          ask(new FormData(event.currentTarget));
        }}
      >
        {fields.map(({ name, label, choices, suggestions, most = longest, isSeldom }) => (
          // What is out of sight keeps what was typed.
          <div key={name} className={styles.field} hidden={isSeldom && !isAsked && !isOpened}>
            <label htmlFor={`${id}-${name}`}>{label}</label>
            {choices ? (
              <select id={`${id}-${name}`} name={name}>
                {choices.map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            ) : (
              <input
                id={`${id}-${name}`}
                name={name}
                type="text"
                maxLength={most}
                spellCheck={false}
                list={suggestions && `${id}-${name}-list`}
              />
            )}
            {suggestions && (
              <datalist id={`${id}-${name}-list`}>
                {suggestions.map((each) => (
                  <option key={each} value={each} />
                ))}
              </datalist>
            )}
          </div>
        ))}
        <div className={classes(styles.buttons, more && styles.wide)}>
          <Button kind="primary" type="submit">
            {verb}
          </Button>
          <Button
            kind="quiet"
            onClick={() => {
              form.current?.reset();
              onAsk({});
            }}
          >
            {text.clear}
          </Button>
          {more && !isAsked && (
            <Button kind="quiet" aria-expanded={isOpened} onClick={() => setOpened(!isOpened)}>
              {more}
            </Button>
          )}
        </div>
      </form>
    </search>
  );
}
