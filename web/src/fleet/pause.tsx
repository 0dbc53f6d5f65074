// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useId } from "react";
import type { ContentHold, Service, ServiceSpec } from "../gen/leat/fleet/v1/resources_pb";
import { ms } from "../hub/time.ts";
import { Age } from "../parts/age.tsx";
import styles from "../parts/field.module.css";
import { act } from "../text/act.ts";
import { condition } from "../text/condition.ts";

const words = act.pause;

/** For how many hours something can be paused. Zero is without an end. */
export const pauseHours = [0, 1, 8, 24, 168] as const;
export type PauseHours = (typeof pauseHours)[number];

/** Returns the flag of the command line for a pause of so many hours, with the blank before it. */
export const pauseFlag = (hours: PauseHours): string => (hours === 0 ? "" : ` --for ${hours}h`);

/** Returns when a pause of so many hours ends that begins at a time in milliseconds; undefined: it has no end. */
export const pauseEnd = (hours: PauseHours, now: number) =>
  hours === 0 ? undefined : timestampFromMs(now + hours * 3_600_000);

/** Reports whether the pause of a document counts at a time. A service has the answer of the hub in its status. */
export function isPausedAt(spec: Pick<ServiceSpec, "paused" | "pausedUntil"> | undefined, now: number): boolean {
  const end = ms(spec?.pausedUntil);
  return spec?.paused === true && (end === undefined || now < end);
}

/** PauseLength asks how long a pause lasts, or the pin to a revision. */
export function PauseLength({
  of = "pause",
  hours,
  onChange,
}: {
  of?: "pause" | "pin";
  hours: PauseHours;
  onChange: (hours: PauseHours) => void;
}) {
  const id = useId();
  const lengths = of === "pin" ? { ...words.lengths, 0: act.pin.forever } : words.lengths;
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{words.length}</label>
      <select
        id={id}
        value={hours}
        aria-describedby={`${id}-help`}
        onChange={(event) => onChange(pauseHours.find((each) => String(each) === event.target.value) ?? 0)}
      >
        {pauseHours.map((each) => (
          <option key={each} value={each}>
            {lengths[each]}
          </option>
        ))}
      </select>
      <p id={`${id}-help`}>{hours === 0 ? act[of].noEnd : words.end}</p>
    </div>
  );
}

/** PinOf is what a service is pinned to, by whom, and when that ends by itself. */
export function PinOf({ hold }: { hold: ContentHold }) {
  const end = ms(hold.pinnedUntil);
  return (
    <>
      {condition.pinned(hold.pinnedRevision, hold.pinnedBy)}
      {end !== undefined && (
        <>
          {". "}
          {act.pin.isEnding} <Age at={end} />
        </>
      )}
    </>
  );
}

/** PauseOf is whether a service is paused, and when that ends by itself, or has ended. */
export function PauseOf({ service: { spec, status } }: { service: Service }) {
  const end = ms(spec?.pausedUntil);
  if (!spec?.paused) return condition.pausedNo;
  if (end === undefined) return condition.pausedYes;
  return (
    <>
      {status?.pauseEnded ? words.hasEnded : words.isEnding} <Age at={end} />
    </>
  );
}
