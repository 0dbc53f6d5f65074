// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import styles from "./icon.module.css";

// Our icons, drawn on a grid of 16 with a line of 1.5. An icon never stands for a word: it is hidden from screen
// readers, and a control that has nothing else has a label.
const shapes = {
  alert: (
    <>
      <path d="M8 2.2 14.4 13.3H1.6z" />
      <path d="M8 6.4v3M8 11.3v.1" />
    </>
  ),
  arrowDown: <path d="M8 3v10M4 9l4 4 4-4" />,
  arrowUp: <path d="M8 13V3M4 7l4-4 4 4" />,
  check: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="m5.3 8.2 1.9 1.9 3.5-4" />
    </>
  ),
  chevron: <path d="m6 3.5 4.5 4.5L6 12.5" />,
  clock: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.600V8l2.3 1.7" />
    </>
  ),
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  cluster: (
    <>
      <rect x="2" y="2.5" width="12" height="4.5" rx="1" />
      <rect x="2" y="9" width="12" height="4.5" rx="1" />
      <path d="M4.6 4.800h.1M4.6 11.200h.1" />
    </>
  ),
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 5.500V4A1.5 1.5 0 0 0 9 2.500H4A1.5 1.5 0 0 0 2.5 4v5A1.5 1.5 0 0 0 4 10.500h1.5" />
    </>
  ),
  cross: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="m5.8 5.8 4.4 4.400M10.2 5.800l-4.4 4.4" />
    </>
  ),
  dashed: <circle cx="8" cy="8" r="6" strokeDasharray="2.5 2.2" />,
  dark: <path d="M13.2 9.700A5.6 5.6 0 0 1 6.3 2.800a5.6 5.6 0 1 0 6.9 6.900z" />,
  external: (
    <path d="M9.5 2.500h4v4M13.3 2.7 7.5 8.500M12 9.500V12a1.5 1.5 0 0 1-1.5 1.500H4A1.5 1.5 0 0 1 2.5 12V5.500A1.5 1.5 0 0 1 4 4h2.5" />
  ),
  folder: (
    <path d="M1.8 12.300V4.200a.9.9 0 0 1 .9-.9h3.400l1.6 1.900h5.600a.9.9 0 0 1 .9.9v6.200a.9.9 0 0 1-.9.9H2.7a.9.9 0 0 1-.9-.9z" />
  ),
  global: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M2 8h12M8 2c4 3.600 4 8.400 0 12M8 2c-4 3.600-4 8.400 0 12" />
    </>
  ),
  half: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.500v7a3.5 3.5 0 0 0 0-7z" fill="currentColor" stroke="none" />
    </>
  ),
  info: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 7.500v3.300M8 5.200v.1" />
    </>
  ),
  key: (
    <>
      <circle cx="5.2" cy="10.8" r="3" />
      <path d="m7.4 8.6 6-6M11 5l2 2" />
    </>
  ),
  light: (
    <>
      <circle cx="8" cy="8" r="2.8" />
      <path d="M8 1.200v1.500M8 13.300v1.500M1.2 8h1.500M13.3 8h1.500M3.2 3.200l1 1M11.8 11.800l1 1M12.8 3.200l-1 1M4.2 11.800l-1 1" />
    </>
  ),
  lock: (
    <>
      <rect x="3" y="7" width="10" height="6.5" rx="1.5" />
      <path d="M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2" />
    </>
  ),
  offline: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="m3.8 3.8 8.4 8.4" />
    </>
  ),
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.5" />,
  pause: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M6.5 6v4M9.5 6v4" />
    </>
  ),
  person: (
    <>
      <circle cx="8" cy="5.5" r="2.8" />
      <path d="M2.8 13.800c.6-2.8 2.6-4 5.2-4s4.6 1.2 5.2 4" />
    </>
  ),
  tag: (
    <>
      <path d="M2.500 7.300V2.500h4.800l6.400 6.400a.9.9 0 0 1 0 1.300l-3.500 3.500a.9.9 0 0 1-1.300 0z" />
      <path d="M5.300 5.300h.1" />
    </>
  ),
  project: (
    <path d="M2.500 2.500h4.500v4.500H2.500zM9 2.500h4.500v4.500H9zM2.500 9h4.500v4.500H2.500zM9 11.200h4.500M11.200 9v4.5" />
  ),
  repository: (
    <>
      <circle cx="4.5" cy="3.7" r="1.7" />
      <circle cx="4.5" cy="12.3" r="1.7" />
      <circle cx="11.5" cy="5.7" r="1.7" />
      <path d="M4.5 5.400v5.200M11.5 7.400c0 2.4-3 2-5.6 3.6" />
    </>
  ),
  rollout: <path d="M2 12.500h3.500V9H9V5.500h3.500V2.500M10.300 4.500l2.200-2.200 2 2.2" />,
  search: (
    <>
      <circle cx="7" cy="7" r="4.5" />
      <path d="m10.3 10.3 3.5 3.5" />
    </>
  ),
  service: <path d="M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.6 5.1 8 8.200l5.4-3.100M8 8.200v5.9" />,
  sliders: (
    <>
      <path d="M2 4.500h4M9.500 4.500H14M2 11.500h6.500M12 11.500h2" />
      <circle cx="7.7" cy="4.5" r="1.7" />
      <circle cx="10.2" cy="11.5" r="1.7" />
    </>
  ),
  system: (
    <>
      <rect x="1.8" y="2.8" width="12.4" height="8.4" rx="1.2" />
      <path d="M5.5 13.800h5M8 11.200v2.6" />
    </>
  ),
  unknown: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M6.3 6.500c.1-1.1.8-1.7 1.8-1.7 1 0 1.7.6 1.7 1.5 0 1.3-1.8 1.3-1.8 2.600M8 11.100v.1" />
    </>
  ),
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof shapes;

export const iconNames = Object.keys(shapes) as IconName[];

export function Icon({ name, size = 16 }: { name: IconName; size?: 16 | 20 | 32 }) {
  return (
    <svg className={styles.icon} viewBox="0 0 16 16" width={size} height={size} aria-hidden="true" focusable="false">
      {shapes[name]}
    </svg>
  );
}
