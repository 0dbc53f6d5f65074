// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Duration } from "@bufbuild/protobuf/wkt";
import { Link } from "@tanstack/react-router";
import { Card } from "../../fleet/page.tsx";
import type { ArrivalTimes, CommitArrival } from "../../gen/leat/fleet/v1/query_pb";
import { Command } from "../../parts/command.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import styles from "./arrival.module.css";

const words = delivery.commit.took;
const mostSlow = 5;
/** A hundred years: no agent means more. */
const longest = 100 * 365 * 86_400;

/** Returns a span in the units that people say, and a dash for none and for one that makes no sense. */
function spanOf(took: Duration | undefined): string {
  const seconds = took ? Number(took.seconds) + took.nanos / 1e9 : Number.NaN;
  if (!(seconds >= 0 && seconds <= longest)) return words.none;
  const span = seconds < 59.5 ? text.seconds(seconds) : text.span(Math.round(seconds));
  return span.replaceAll(/(\d) /g, "$1\u00a0"); // a number stays with its unit
}

/** Arrival is how long the commit took to be applied and to become healthy, and what the figures do not have. */
export function Arrival({ arrival, command }: { arrival: CommitArrival; command: string }) {
  const { applied, healthy } = arrival;
  const counted = (times: ArrivalTimes | undefined) =>
    times ? times.count + times.pending + times.unknown > 0 : false;
  if (!counted(applied) && !counted(healthy)) return null;
  const isHealthy = (healthy?.count ?? 0) > 0;
  const answered = isHealthy ? healthy : applied;
  const rows = [
    [words.applied, applied],
    [words.healthy, healthy],
  ] as const;
  return (
    <Card title={words.title} note={<Command label={text.sameAs}>{command}</Command>}>
      <div className={styles.body}>
        <p className={styles.answer}>
          {answered && answered.count > 0
            ? words.answer(isHealthy, answered.count, spanOf(answered.p50), spanOf(answered.p99))
            : words.nothing}
        </p>
        <table className={styles.times}>
          <thead>
            <tr>
              <th scope="col">{words.until}</th>
              {words.columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, times]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {[times?.p50, times?.p90, times?.p99, times?.max].map((took, index) => (
                  <td key={words.columns[index]}>{spanOf(took)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {answered && answered.count > 1 && (
          <ul className={styles.slowest} aria-label={words.slowest}>
            <li aria-hidden="true">{words.slowest}</li>
            {answered.slowest.slice(0, mostSlow).map(({ ref, took }) => (
              <li key={ref}>
                <Link to="/services/$" params={{ _splat: ref }}>
                  {ref}
                </Link>{" "}
                {spanOf(took)}
              </li>
            ))}
          </ul>
        )}
        {healthy && healthy.pending + healthy.unknown > 0 && (
          <p className={styles.note}>
            {[words.pending(healthy.pending), words.unknown(healthy.unknown)].filter(Boolean).join(" ")}
          </p>
        )}
        <p className={styles.note}>{words.definition}</p>
      </div>
    </Card>
  );
}
