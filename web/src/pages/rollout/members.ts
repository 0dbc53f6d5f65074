// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Rollout, type RolloutMember, RolloutService } from "../../gen/leat/fleet/v1/rollout_pb";
import type { Hub } from "../../hub/hub.ts";

/** Detail is a rollout with a part of its members. */
export interface Detail {
  rollout: Rollout;
  /** The most urgent first. */
  members: readonly RolloutMember[];
  /** There are more members than these. */
  isCut: boolean;
  /** How many members of a wave are in each stage. Only waves of which every member was read are in it. */
  stages: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

const pageSize = 500;
const mostPages = 10;
const mostShown = 500;

// What a person looks for comes first.
const urgency = ["failed", "goingBack", "back", "admitted", "waiting", "arrived", "unchanged"];

export const hasFailed = (member: RolloutMember): boolean => urgency.indexOf(member.stage) < 3;

/**
 * Reads a rollout with its first members. The hub lists them in the order of the waves and not by stage, so if members
 * have failed, further pages are read until these are found; up to a bound, because a rollout can have 200,000 members.
 */
export async function readRollout(hub: Hub, name: string, number: bigint, signal: AbortSignal): Promise<Detail> {
  const failed: RolloutMember[] = [];
  const others: RolloutMember[] = [];
  const tallies = new Map<string, Map<string, number>>();
  let rollout: Rollout | undefined;
  let token = "";
  let seen = 0;
  for (let page = 0; page < mostPages; page += 1) {
    const answer = await hub.call(RolloutService).getRollout(
      // Later pages are those of the same rollout, even if another one begins meanwhile.
      { name, number: rollout?.number ?? number, page: { size: pageSize, token } },
      { signal },
    );
    rollout = answer.rollout ?? rollout;
    for (const member of answer.members) {
      seen += 1;
      const list = hasFailed(member) ? failed : others;
      if (list.length < mostShown) list.push(member);
      const stages = tallies.get(member.wave) ?? new Map<string, number>();
      tallies.set(member.wave, stages.set(member.stage, (stages.get(member.stage) ?? 0) + 1));
    }
    token = answer.nextPageToken;
    if (token === "" || failed.length >= Math.min(rollout?.failed ?? 0, mostShown)) break;
  }
  if (!rollout) throw new Error("the hub has sent no rollout");
  const members = [...failed, ...others].sort((a, b) => urgency.indexOf(a.stage) - urgency.indexOf(b.stage));
  const stages = new Map(
    rollout.waves.flatMap((wave) => {
      const stages = tallies.get(wave.name) ?? new Map<string, number>();
      const sum = [...stages.values()].reduce((all, n) => all + n, 0);
      return sum === wave.total ? [[wave.name, stages] as const] : [];
    }),
  );
  const shown = members.slice(0, mostShown);
  return { rollout, members: shown, isCut: token !== "" || seen > shown.length, stages };
}
