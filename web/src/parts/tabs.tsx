// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import {
  Tab as AriaTab,
  TabList as AriaTabList,
  TabPanel as AriaTabPanel,
  Tabs as AriaTabs,
} from "react-aria-components";
import { text } from "../text/en.ts";
import styles from "./tabs.module.css";

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
