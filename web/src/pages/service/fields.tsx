// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useId } from "react";
import { DiffAction, type FieldDiff, type FieldManager, type ObjectDiff } from "../../gen/leat/agent/v1/agent_pb";
import { ms } from "../../hub/time.ts";
import { Age } from "../../parts/age.tsx";
import { LogLine } from "../../parts/line.tsx";
import { understand } from "../../text/understand.ts";
import styles from "./fields.module.css";

const words = understand.diff.fields;
const leat = "leat";
// An agent of ours sends no more.
const mostFields = 200;
const mostManagers = 10;
const mostText = 1100;
const mostName = 128;
/** How many managers the line of an object names, and how many characters it has of each. */
const mostNames = 3;
const mostShort = 40;

/** Returns the fields of an object that are shown. */
export const fieldsOf = ({ fields }: ObjectDiff): FieldDiff[] => fields.slice(0, mostFields);

/** Returns the managers of a field that are not Leat. */
export const othersOf = ({ managers }: FieldDiff): FieldManager[] =>
  managers.slice(0, mostManagers).filter(({ name }) => name !== leat);

/**
 * Reports whether others may manage what a run would do to an object. Nobody knows that of fields that are not listed,
 * and an object is also refused because others manage its fields.
 */
export const isOfOthers = (object: ObjectDiff): boolean =>
  object.fieldsOmitted > 0 ||
  object.action === DiffAction.REFUSE ||
  object.fields.some((field) => othersOf(field).length > 0);

/** Fields are the fields of an object that would change, or those that are left to others, and who manages them. */
export function Fields({
  title,
  columns,
  fields,
  omitted,
}: {
  title: string;
  columns: readonly string[];
  fields: readonly FieldDiff[];
  omitted: number;
}) {
  const id = useId();
  const shown = fields.slice(0, mostFields);
  const left = omitted + fields.length - shown.length;
  return (
    <section className={styles.fields} aria-labelledby={id}>
      <h3 id={id}>{title}</h3>
      {shown.length > 0 && (
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((field, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the fields of one comparison never move
              <tr key={index}>
                <th scope="row">
                  <Code most={mostText}>{field.path}</Code>
                </th>
                <td data-column={columns[1]}>
                  <Value>{field.before}</Value>
                </td>
                <td data-column={columns[2]}>
                  <Value>{field.after}</Value>
                </td>
                <td data-column={columns[3]}>
                  <Managers field={field} />
                </td>
                {columns[4] && (
                  <td data-column={columns[4]}>
                    <Code most={mostText}>{field.rule}</Code>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {left > 0 && <p className={styles.note}>{words.more(left)}</p>}
    </section>
  );
}

function Value({ children }: { children: string }) {
  if (children === "") return <span className={styles.note}>{words.nothing}</span>;
  return <Code most={300}>{children}</Code>;
}

function Code({ children, most }: { children: string; most: number }) {
  return (
    <code>
      <LogLine most={most}>{children}</LogLine>
    </code>
  );
}

/** Name is the name of a manager, which anybody who writes to the cluster chooses. */
function Name({ children }: { children: string }) {
  return <LogLine most={mostName}>{children}</LogLine>;
}

/** By says in the line of an object how many of its fields others manage, and which managers. */
export function By({ fields }: { fields: readonly FieldDiff[] }) {
  const names = [...new Set(fields.flatMap((field) => othersOf(field).map(({ name }) => name)))];
  if (names.length === 0) return null;
  const shown = names
    .slice(0, mostNames)
    .map((name) => (name.length > mostShort ? `${name.slice(0, mostShort)}…` : name));
  return (
    <span className={styles.by}>
      <LogLine>{words.inHead(fields.length, shown, names.length - shown.length)}</LogLine>
    </span>
  );
}

/** Managers names the owners of a field, the latest first, and says whether the run takes the field from them. */
function Managers({ field }: { field: FieldDiff }) {
  if (field.managers.length === 0) return <span className={styles.note}>{words.nobody}</span>;
  return (
    <>
      <ul className={styles.managers}>
        {field.managers.slice(0, mostManagers).map(({ name, operation, time }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the managers of one comparison never move
          <li key={index}>
            <strong>{name === leat ? words.leat : <Name>{name}</Name>}</strong>{" "}
            <span className={styles.note}>
              <LogLine most={32}>{operation}</LogLine> <Age at={ms(time)} />
            </span>
          </li>
        ))}
      </ul>
      {field.isTaken && <p className={styles.taken}>{words.taken}</p>}
    </>
  );
}
