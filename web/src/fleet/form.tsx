// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useId, useRef } from "react";
import { Button } from "../parts/button.tsx";
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
}

// The hub refuses longer names.
const longest = 256;

/** SearchForm asks a question of a few fields. It is asked when the person says so, and the address holds it. */
export function SearchForm<Name extends string>({
  label,
  fields,
  value,
  verb,
  onAsk,
}: {
  label: string;
  fields: readonly Field<Name>[];
  value: Readonly<Partial<Record<Name, string>>>;
  verb: string;
  onAsk: (asked: Partial<Record<Name, string>>) => void;
}) {
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  // The fields keep what is typed. Another question, such as the back button's, replaces it.
  const key = JSON.stringify(fields.map(({ name }) => value[name] ?? ""));
  useEffect(() => {
    const values: string[] = JSON.parse(key);
    const controls = form.current?.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input, select") ?? [];
    controls.forEach((control, index) => {
      control.value = values[index] ?? "";
    });
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
        {fields.map(({ name, label, choices, suggestions, most = longest }) => (
          <div key={name} className={styles.field}>
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
        <div className={styles.buttons}>
          <Button kind="primary" type="submit">
            {verb}
          </Button>
          <Button kind="quiet" onClick={() => onAsk({})}>
            {text.clear}
          </Button>
        </div>
      </form>
    </search>
  );
}
