// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { text } from "../text/en.ts";
import { piecesOf } from "./ansi.ts";
import { classes } from "./classes.ts";
import styles from "./line.module.css";

/** LogLine is a line that a program wrote, as text with its colours. A long one is shown in part, and says so. */
export function LogLine({ children, most = 2000, cut = 0 }: { children: string; most?: number; cut?: number }) {
  const shown = children.length > most ? children.slice(0, most) : children;
  const left = children.length - shown.length + cut;
  return (
    <>
      {piecesOf(shown).map((piece, index) => (
        <span
          // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a line never move
          key={index}
          className={classes(
            piece.ink && styles[piece.ink],
            piece.isStrong === true && styles.strong,
            piece.isMark === true && styles.mark,
          )}
        >
          {piece.text}
        </span>
      ))}
      {left > 0 && <span className={styles.cut}>{text.lineCut(left)}</span>}
    </>
  );
}
