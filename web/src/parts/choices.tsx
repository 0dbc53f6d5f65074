// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ReactNode, useEffect } from "react";
import { text } from "../text/en.ts";
import styles from "./choices.module.css";
import { Icon, type IconName } from "./icon.tsx";
import palette from "./palette.module.css";
import type { Asked } from "./palette.tsx";

export interface Choice {
  id: string;
  icon: IconName;
  label: string;
  /** What distinguishes entries with the same label. */
  note?: ReactNode;
  run: () => void;
}

export interface ChoiceGroup {
  title: string;
  entries: readonly Choice[];
}

/** Choices is the list of a palette: the entries that match what its field asks for. */
export function Choices({
  asked: { at, isDue, id, onMove, onCurrent, onRun },
  groups,
  isBusy,
}: {
  asked: Asked;
  groups: readonly ChoiceGroup[];
  /** Whether the hub is still being asked for entries. Enter waits for the first one. */
  isBusy: boolean;
}) {
  const entries = groups.flatMap((group) => group.entries);
  const current = entries.at(at % entries.length);
  const idOf = (entry: Choice) => `${id}-${entry.id}`;

  const currentId = current && idOf(current);
  useEffect(() => {
    onCurrent(currentId);
    if (currentId) document.getElementById(currentId)?.scrollIntoView({ block: "nearest" });
  }, [currentId, onCurrent]);
  useEffect(() => {
    if (isDue && (current || !isBusy)) onRun(current?.run);
  });

  return (
    <>
      <div id={id} role="listbox" aria-label={text.palette} className={styles.list} aria-busy={isBusy} tabIndex={-1}>
        {groups.map(
          (group) =>
            group.entries.length > 0 && (
              <div key={group.title} role="group" aria-label={group.title} className={styles.group}>
                <div className={styles.groupTitle} aria-hidden="true">
                  {group.title}
                </div>
                {group.entries.map((entry) => (
                  <div
                    key={entry.id}
                    id={idOf(entry)}
                    role="option"
                    tabIndex={-1}
                    aria-selected={entry === current}
                    className={styles.entry}
                    onMouseMove={() => {
                      if (entry !== current) onMove(entries.indexOf(entry));
                    }}
                    onClick={() => onRun(entry.run)}
                  >
                    <Icon name={entry.icon} />
                    <span className={styles.label}>{entry.label}</span>
                    {entry.note && <span className={styles.note}>{entry.note}</span>}
                  </div>
                ))}
              </div>
            ),
        )}
      </div>
      <p className={palette.foot} role="status">
        {entries.length === 0 ? (isBusy ? text.searching : text.nothingFound) : text.paletteHelp}
      </p>
    </>
  );
}
