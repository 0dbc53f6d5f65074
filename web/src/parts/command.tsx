// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useState } from "react";
import { text } from "../text/en.ts";
import { Button } from "./button.tsx";
import { classes } from "./classes.ts";
import styles from "./command.module.css";
import { say } from "./status.tsx";

/** Command is a command line that says the same as the page, or does the next step, with a button that copies it. */
export function Command({
  children,
  label,
  isText = false,
}: {
  children: string;
  label?: string;
  /** It is another text to copy, and no shell's. */
  isText?: boolean;
}) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(children);
      setCopied(true);
      say(text.copied);
    } catch {
      // Without the right to write the clipboard, the text can still be selected.
      say(text.copyFailed);
    }
  };
  return (
    <div className={styles.command}>
      {label && <span className={styles.label}>{label}</span>}
      <code className={classes(styles.text, isText && styles.plain)}>{children}</code>
      <Button
        kind="quiet"
        icon={isCopied ? "check" : "copy"}
        iconOnly
        onClick={() => void copy()}
        onBlur={() => setCopied(false)}
      >
        {text.copyCommand(children)}
      </Button>
    </div>
  );
}
