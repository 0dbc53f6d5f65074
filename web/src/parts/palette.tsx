// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Dialog as AriaDialog, Modal, ModalOverlay } from "react-aria-components";
import { text } from "../text/en.ts";
import { Icon, type IconName } from "./icon.tsx";
import overlay from "./overlay.module.css";
import styles from "./palette.module.css";

export interface PaletteEntry {
  id: string;
  icon: IconName;
  label: string;
  /** What distinguishes entries with the same label. */
  note?: ReactNode;
  run: () => void;
}

export interface PaletteGroup {
  title: string;
  entries: readonly PaletteEntry[];
}

/**
 * Palette finds a page, an object or an action by a few letters. The input keeps the focus; arrows move through the
 * entries, Enter runs one, and Escape closes.
 */
export function Palette({
  isOpen,
  onClose,
  groups,
  query,
  onQuery,
  isBusy,
}: {
  isOpen: boolean;
  onClose: () => void;
  groups: readonly PaletteGroup[];
  query: string;
  onQuery: (query: string) => void;
  isBusy: boolean;
}) {
  return (
    <ModalOverlay
      className={overlay.scrim ?? ""}
      isOpen={isOpen}
      isDismissable
      onOpenChange={(open) => {
        if (!open) onClose();
      }}
    >
      <Modal className={overlay.modal ?? ""}>
        <AriaDialog className={styles.dialog ?? ""} aria-label={text.palette}>
          <Finder groups={groups} query={query} onQuery={onQuery} isBusy={isBusy} onClose={onClose} />
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

function Finder({
  groups,
  query,
  onQuery,
  isBusy,
  onClose,
}: {
  groups: readonly PaletteGroup[];
  query: string;
  onQuery: (query: string) => void;
  isBusy: boolean;
  onClose: () => void;
}) {
  const base = useId();
  const input = useRef<HTMLInputElement>(null);
  const [at, setAt] = useState(0);
  const entries = groups.flatMap((group) => group.entries);
  const current = entries[Math.min(at, entries.length - 1)];
  const idOf = (entry: PaletteEntry) => `${base}-${entry.id}`;

  useEffect(() => input.current?.focus(), []);
  const currentId = current && idOf(current);
  useEffect(() => {
    if (currentId) document.getElementById(currentId)?.scrollIntoView({ block: "nearest" });
  }, [currentId]);

  const run = (entry: PaletteEntry) => {
    onClose();
    entry.run();
  };
  const move = (to: number) => setAt((to + entries.length) % Math.max(1, entries.length));
  return (
    <>
      <div className={styles.field}>
        <Icon name="search" />
        <input
          ref={input}
          role="combobox"
          aria-expanded="true"
          aria-controls={`${base}-list`}
          aria-activedescendant={currentId}
          aria-autocomplete="list"
          aria-label={text.palette}
          placeholder={text.palettePlaceholder}
          value={query}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => {
            setAt(0);
            onQuery(event.target.value);
          }}
          onKeyDown={(event) => {
            const from = Math.min(at, entries.length - 1);
            if (event.key === "ArrowDown") move(from + 1);
            else if (event.key === "ArrowUp") move(from - 1);
            else if (event.key === "Enter" && current) run(current);
            else return;
            event.preventDefault();
          }}
        />
      </div>
      <div
        id={`${base}-list`}
        role="listbox"
        aria-label={text.palette}
        className={styles.list}
        aria-busy={isBusy}
        tabIndex={-1}
      >
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
                    onMouseMove={() => setAt(entries.indexOf(entry))}
                    onClick={() => run(entry)}
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
      <p className={styles.foot} role="status">
        {entries.length === 0 ? (isBusy ? text.searching : text.nothingFound) : text.paletteHelp}
      </p>
    </>
  );
}
