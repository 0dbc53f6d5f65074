// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ReactNode, Suspense, useId, useState } from "react";
import { Dialog as AriaDialog, Modal, ModalOverlay } from "react-aria-components";
import { text } from "../text/en.ts";
import { Icon } from "./icon.tsx";
import overlay from "./overlay.module.css";
import styles from "./palette.module.css";

/** Asked is what the field of a palette asks of its list, which Choices shows. */
export interface Asked {
  query: string;
  /** How many entries the arrows have moved from the first one. The list wraps around. */
  at: number;
  /** Whether Enter was pressed, and waits for an entry. */
  isDue: boolean;
  /** The id of the list. Those of its entries begin with it. */
  id: string;
  onMove: (at: number) => void;
  /** Names the element of the current entry to screen readers. */
  onCurrent: (id: string | undefined) => void;
  /** Answers Enter with what the current entry does. Without one, nothing is found. */
  onRun: (run?: () => void) => void;
}

const focus = (input: HTMLInputElement | null) => input?.focus();

/**
 * Palette finds a page, an object or an action by a few letters. The input keeps the focus; arrows move through the
 * entries, Enter runs one, and Escape closes. The list may load after the palette opens: the input is the same one
 * before and after, and Enter and the arrows wait for the list, so nothing is lost that a person types early.
 */
export function Palette({ onClose, children }: { onClose: () => void; children: (asked: Asked) => ReactNode }) {
  const id = useId();
  const [asked, setAsked] = useState({ query: "", at: 0, isDue: false });
  const [current, setCurrent] = useState<string>();
  // Whatever a person does after Enter takes it back.
  const ask = (change: Partial<Asked>) => setAsked((before) => ({ ...before, isDue: false, ...change }));
  const onMove = (at: number) => ask({ at });
  const onRun = (run?: () => void) => {
    if (run) onClose();
    else ask({});
    run?.();
  };
  return (
    <ModalOverlay
      className={overlay.scrim ?? ""}
      isOpen
      isDismissable
      onOpenChange={(open) => {
        if (!open) onClose();
      }}
    >
      <Modal className={overlay.modal ?? ""}>
        <AriaDialog className={styles.dialog ?? ""} aria-label={text.palette}>
          <div className={styles.field}>
            <Icon name="search" />
            <input
              ref={focus}
              role="combobox"
              aria-expanded="true"
              aria-controls={id}
              aria-activedescendant={current}
              aria-autocomplete="list"
              aria-label={text.palette}
              placeholder={text.palettePlaceholder}
              value={asked.query}
              autoComplete="off"
              spellCheck={false}
              onChange={(event) => ask({ query: event.target.value, at: 0 })}
              onKeyDown={(event) => {
                // These keys are the input method's while it composes a word.
                if (event.nativeEvent.isComposing) return;
                if (event.key === "ArrowDown") onMove(asked.at + 1);
                else if (event.key === "ArrowUp") onMove(asked.at - 1);
                else if (event.key === "Enter") ask({ isDue: true });
                else return;
                event.preventDefault();
              }}
            />
          </div>
          <Suspense
            fallback={
              <>
                <div id={id} role="listbox" aria-label={text.palette} aria-busy />
                <p className={styles.foot} role="status">
                  {text.loading}
                </p>
              </>
            }
          >
            {children({ ...asked, id, onMove, onCurrent: setCurrent, onRun })}
          </Suspense>
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}
