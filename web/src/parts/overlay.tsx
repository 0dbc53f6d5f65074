// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import {
  Button as AriaButton,
  Dialog as AriaDialog,
  Menu as AriaMenu,
  MenuItem as AriaMenuItem,
  Header,
  Heading,
  type Key,
  MenuSection,
  MenuTrigger,
  Modal,
  ModalOverlay,
  Popover,
} from "react-aria-components";
import { text } from "../text/en.ts";
import { Button } from "./button.tsx";
import { Icon, type IconName } from "./icon.tsx";
import styles from "./overlay.module.css";

/** Dialog is a question or a small form above the page. The page behind it cannot be reached until it closes. */
export function Dialog({
  title,
  isOpen,
  onClose,
  children,
  actions,
}: {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
  actions?: ReactNode;
}) {
  return (
    <ModalOverlay
      className={styles.scrim ?? ""}
      isOpen={isOpen}
      isDismissable
      onOpenChange={(open) => {
        if (!open) onClose();
      }}
    >
      <Modal className={styles.modal ?? ""}>
        <AriaDialog className={styles.dialog ?? ""}>
          <div className={styles.title}>
            <Heading slot="title">{title}</Heading>
            <Button kind="quiet" icon="close" iconOnly onClick={onClose}>
              {text.close}
            </Button>
          </div>
          <div className={styles.content}>{children}</div>
          {actions && <div className={styles.actions}>{actions}</div>}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

export interface MenuEntry {
  id: string;
  label: string;
  icon?: IconName;
  onAction: () => void;
}

export interface MenuGroup {
  title?: string;
  entries: MenuEntry[];
  /** The id of the entry that is on, if the group is a choice. */
  chosen?: string;
}

/** Menu opens a list of actions and choices below its button. */
export function Menu({ label, button, groups }: { label: string; button: ReactNode; groups: MenuGroup[] }) {
  const run = (key: Key) => {
    for (const group of groups) group.entries.find((entry) => entry.id === key)?.onAction();
  };
  return (
    <MenuTrigger>
      <AriaButton className={styles.trigger ?? ""} aria-label={label}>
        {button}
      </AriaButton>
      <Popover className={styles.popover ?? ""} placement="bottom end" offset={6}>
        <AriaMenu className={styles.menu ?? ""} onAction={run} aria-label={label}>
          {groups.map((group, index) => (
            <MenuSection
              key={group.title ?? index}
              className={styles.section ?? ""}
              aria-label={group.title ?? label}
              {...(group.chosen === undefined
                ? { selectionMode: "none" as const }
                : { selectionMode: "single" as const, selectedKeys: [group.chosen], onSelectionChange: () => {} })}
            >
              {group.title && <Header className={styles.sectionTitle ?? ""}>{group.title}</Header>}
              {group.entries.map((entry) => (
                <AriaMenuItem key={entry.id} id={entry.id} textValue={entry.label} className={styles.item ?? ""}>
                  {entry.icon && <Icon name={entry.icon} />}
                  <span>{entry.label}</span>
                  {group.chosen === entry.id && (
                    <span className={styles.chosen}>
                      <Icon name="check" />
                    </span>
                  )}
                </AriaMenuItem>
              ))}
            </MenuSection>
          ))}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  );
}
