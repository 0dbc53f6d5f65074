// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import {
  Button as AriaButton,
  Dialog as AriaDialog,
  Menu as AriaMenu,
  MenuItem as AriaMenuItem,
  Tab as AriaTab,
  TabList as AriaTabList,
  TabPanel as AriaTabPanel,
  Tabs as AriaTabs,
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

export interface TabEntry {
  id: string;
  label: string;
  count?: number;
  content: ReactNode;
}

/** Tabs shows one of several parts of a page. The caller holds the choice, because the URL does. */
export function Tabs({
  label,
  tabs,
  chosen,
  onChange,
}: {
  label: string;
  tabs: TabEntry[];
  chosen: string;
  onChange: (id: string) => void;
}) {
  return (
    <AriaTabs className={styles.tabs ?? ""} selectedKey={chosen} onSelectionChange={(key) => onChange(String(key))}>
      <AriaTabList className={styles.tabList ?? ""} aria-label={label}>
        {tabs.map((tab) => (
          <AriaTab key={tab.id} id={tab.id} className={styles.tab ?? ""}>
            {tab.label}
            {tab.count !== undefined && <span className={styles.tabCount}>{text.number(tab.count)}</span>}
          </AriaTab>
        ))}
      </AriaTabList>
      {tabs.map((tab) => (
        <AriaTabPanel key={tab.id} id={tab.id} className={styles.panel ?? ""}>
          {tab.content}
        </AriaTabPanel>
      ))}
    </AriaTabs>
  );
}
