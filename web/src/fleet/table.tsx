// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ReactNode } from "react";
import { text } from "../text/en.ts";
import styles from "./table.module.css";

export interface TableRow {
  key: string;
  cells: readonly ReactNode[];
  /** Below the row, across all columns. */
  note?: ReactNode;
}

/** How many rows a table has. All of them are in the page, so a cluster that reports more must not make it slow. */
const mostRows = 300;

/** Table is for a few rows of one object. A list of the fleet is a Grid. On a narrow screen each cell names its column. */
export function Table({ columns, rows }: { columns: readonly string[]; rows: readonly TableRow[] }) {
  return (
    <table className={styles.table}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      {rows.slice(0, mostRows).map((row) => (
        <tbody key={row.key}>
          <tr>
            {row.cells.map((cell, index) => (
              <td key={columns[index]} data-column={columns[index]}>
                {cell}
              </td>
            ))}
          </tr>
          {row.note && (
            <tr>
              <td colSpan={columns.length}>{row.note}</td>
            </tr>
          )}
        </tbody>
      ))}
      {rows.length > mostRows && (
        <tbody>
          <tr>
            <td colSpan={columns.length}>{text.moreRows(rows.length - mostRows)}</td>
          </tr>
        </tbody>
      )}
    </table>
  );
}
