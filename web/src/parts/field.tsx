// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useId } from "react";
import styles from "./field.module.css";

/** TextField is one line that a person may write, with what it is for. */
export function TextField({
  label,
  help,
  value,
  most,
  onChange,
}: {
  label: string;
  help: string;
  value: string;
  /** How many characters there may be. */
  most: number;
  onChange: (value: string) => void;
}) {
  const id = useId();
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="text"
        value={value}
        maxLength={most}
        aria-describedby={`${id}-help`}
        onChange={(event) => onChange(event.target.value)}
      />
      <p id={`${id}-help`}>{help}</p>
    </div>
  );
}
