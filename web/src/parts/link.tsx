// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import { text } from "../text/en.ts";
import button from "./button.module.css";
import { Icon } from "./icon.tsx";
import styles from "./link.module.css";

/**
 * Returns a URL that a link may lead to, or undefined. Only http and https pass, and no user name: others write the
 * texts, and "https://leat.example.com@evil.example" deceives. new URL decides, because it reads as the browser does.
 */
export function externalUrl(raw: string): URL | undefined {
  if (!/^https?:\/\//i.test(raw) || !URL.canParse(raw)) return undefined;
  const url = new URL(raw);
  const isWeb = url.protocol === "http:" || url.protocol === "https:";
  return isWeb && url.username === "" && url.password === "" ? url : undefined;
}

/**
 * ExternalLink is the only way to another host. It shows the host, opens beside the page, and gives the other page
 * neither a handle nor an address of ours. A text that is not a link is shown as text.
 */
export function ExternalLink({ href, children }: { href: string; children?: ReactNode }) {
  const url = externalUrl(href);
  if (!url) return <span className={styles.text}>{children ?? href}</span>;
  return (
    <a className={styles.link} href={url.href} target="_blank" rel="noopener noreferrer" referrerPolicy="no-referrer">
      <span className={styles.text}>{children ?? url.host + (url.pathname === "/" ? "" : url.pathname)}</span>
      {children !== undefined && <span className={styles.host}>{url.host}</span>}
      <Icon name="external" />
      <span className="unseen">{text.opensBeside}</span>
    </a>
  );
}

/**
 * OwnWindow opens a page of the UI in a small window of its own, which stays when this page goes elsewhere. The address
 * is one of ours. A browser that opens no such window opens a tab.
 */
export function OwnWindow({
  href,
  isQuiet = false,
  children,
}: {
  href: string;
  /** It is a link in a row, which the row's own keys reach. */
  isQuiet?: boolean;
  children: ReactNode;
}) {
  if (!href.startsWith("/ui/")) return null;
  return (
    <a
      className={isQuiet ? undefined : button.button}
      href={href}
      target="_blank"
      rel="noopener"
      tabIndex={isQuiet ? -1 : undefined}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        window.open(href, "_blank", "popup,noopener,width=960,height=640");
      }}
    >
      {!isQuiet && <Icon name="external" />}
      {children}
      <span className="unseen">{text.opensBeside}</span>
    </a>
  );
}
