// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useMemo, useState } from "react";
import { understand } from "../text/understand.ts";
import { Button } from "./button.tsx";
import { LogLine } from "./line.tsx";
import styles from "./unified.module.css";

const step = 1000;

const looks: Record<string, string | undefined> = { "+": styles.added, "-": styles.removed, "@": styles.place };

/** Unified is a difference, in the form of diff. Its signs are text, so that no colour stands alone. */
export function Unified({ name, unified }: { name: string; unified: string }) {
  const [most, setMost] = useState(step);
  const lines = useMemo(() => unified.replace(/\n$/, "").split("\n"), [unified]);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard */}
      <section className={styles.unified} aria-label={name} tabIndex={0}>
        {lines.slice(0, most).map((line, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines never move
          <div key={index} className={looks[line[0] ?? ""]}>
            <LogLine>{line === "" ? " " : line}</LogLine>
          </div>
        ))}
      </section>
      {lines.length > most && (
        <Button onClick={() => setMost(most + 5 * step)}>
          {understand.diff.more(Math.min(5 * step, lines.length - most))}
        </Button>
      )}
    </>
  );
}
