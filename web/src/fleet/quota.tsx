// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Project } from "../gen/leat/fleet/v1/project_pb";
import type { Tone } from "../parts/phase.tsx";
import { govern } from "../text/govern.ts";
import { Bar } from "./bar.tsx";
import styles from "./quota.module.css";

const words = govern.project;

/** Use is how much of a quota a project has used up. */
export interface Use {
  /** What is counted. */
  name: string;
  now: number;
  most: number;
  isBytes: boolean;
}

/** From this share on, a person should look before the hub refuses. */
const tight = 0.9;

/** Returns the uses of the quotas that a project has. Its counts are those of the hub at the time of the answer. */
export function usesOf({ spec, status }: Project): Use[] {
  const { quotas } = spec ?? {};
  const all = [
    { name: words.services, now: status?.services ?? 0, most: quotas?.services, isBytes: false },
    { name: words.repositories, now: status?.repositories ?? 0, most: quotas?.repositories, isBytes: false },
    { name: words.bundles, now: Number(status?.bundleBytes ?? 0), most: quotas?.bundleBytes, isBytes: true },
  ];
  return all.flatMap(({ most, ...use }) => (most === undefined ? [] : { ...use, most: Number(most) }));
}

/** Returns the share of a quota that is used up. A quota of nothing is used up. */
export const partOf = ({ now, most }: Use): number => (most === 0 ? 1 : now / most);

/** Returns the share of the quota that is nearest to its end, or undefined if a project has none. */
export function fullness(project: Project): number | undefined {
  const uses = usesOf(project);
  return uses.length === 0 ? undefined : Math.max(...uses.map(partOf));
}

export const toneOfPart = (part: number): Tone => (part >= 1 ? "bad" : part >= tight ? "warn" : "ok");

export const inWords = ({ now, most, isBytes }: Use): string =>
  isBytes ? words.bytesOf(now, most) : words.countOf(now, most);

/** QuotaBar is how much of a quota is used up, in words and as a bar. */
export function QuotaBar({ use }: { use: Use }) {
  const part = partOf(use);
  return (
    <span className={styles.quota}>
      <span>{inWords(use)}</span>
      <Bar parts={[{ tone: toneOfPart(part), count: Math.min(use.now, use.most) }]} total={use.most} />
    </span>
  );
}
