// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ButtonHTMLAttributes, type ReactNode, useId } from "react";
import styles from "./button.module.css";
import { classes } from "./classes.ts";
import { Icon, type IconName } from "./icon.tsx";

export type ButtonProps = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled" | "className"> & {
  kind?: "primary" | "plain" | "quiet" | "danger";
  icon?: IconName;
  /** Shows the icon alone. The children are the label then. */
  iconOnly?: boolean;
  /** Why the person cannot use it now. A button with a reason stays focusable, so that the reason can be read. */
  refused?: string | undefined;
  /** The action runs. */
  busy?: boolean;
  children: ReactNode;
};

export function Button({ kind = "plain", icon, iconOnly, refused, busy, children, onClick, ...rest }: ButtonProps) {
  const why = useId();
  const isOff = refused !== undefined || busy === true;
  return (
    <>
      <button
        type="button"
        {...rest}
        className={classes(styles.button, styles[kind], iconOnly && styles.iconOnly)}
        aria-disabled={isOff || undefined}
        aria-busy={busy || undefined}
        aria-describedby={refused === undefined ? rest["aria-describedby"] : why}
        title={refused ?? rest.title ?? (iconOnly && typeof children === "string" ? children : undefined)}
        onClick={(event) => {
          if (isOff) event.preventDefault();
          else onClick?.(event);
        }}
      >
        {icon && <Icon name={icon} />}
        <span className={iconOnly ? "unseen" : undefined}>{children}</span>
      </button>
      {refused !== undefined && (
        <span id={why} className="unseen">
          {refused}
        </span>
      )}
    </>
  );
}
