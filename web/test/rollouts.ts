// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { type FleetRow, FleetRowSchema } from "../src/gen/leat/fleet/v1/query_pb";
import {
  type GetRolloutResponse,
  GetRolloutResponseSchema,
  RolloutMemberSchema,
  RolloutSchema,
} from "../src/gen/leat/fleet/v1/rollout_pb";
import { ago } from "./hub.ts";

// Invented rollouts.

const commit = "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e";

type RolloutInit = MessageInitShape<typeof RolloutSchema>;

/** Returns a rollout that waits for an approval after its first wave. */
export const rollout = (change: RolloutInit = {}) =>
  create(RolloutSchema, {
    id: "r7",
    policy: "shops",
    number: 7n,
    state: "running",
    wave: "canary",
    waitsFor: 'wave "canary" waits for 1 more to approve',
    waitsOn: "person",
    startedAt: ago(95),
    total: 412,
    arrived: 12,
    failed: 1,
    unavailable: 3,
    maxUnavailable: 20,
    contents: [
      { repository: "shop", commit },
      { repository: "charts", commit: "sha256:9f00", version: "1.4.8" },
    ],
    changes: ["content", "source ref v1 -> v2"],
    authors: ["bob"],
    waves: [
      { name: "lab", total: 3, arrived: 3, passedAt: ago(80) },
      { name: "canary", total: 13, arrived: 12, soakSince: ago(12) },
      { name: "one-per-region", total: 9 },
      { name: "rest", total: 387 },
      { name: "late" },
    ],
    ...change,
  });

/** Returns the row of a policy whose latest rollout is given. */
export const policyRow = (
  name: string,
  latest: RolloutInit | undefined,
  row: Pick<Partial<FleetRow>, "reason" | "message" | "since"> = {},
): FleetRow =>
  create(FleetRowSchema, {
    ref: name,
    name: name.slice(name.indexOf("/") + 1),
    can: ["pause", "control", "approve"],
    document: {
      object: {
        case: "rolloutPolicy",
        value: {
          metadata: { name },
          spec: {
            description: "Shops get new content region by region.",
            maxUnavailable: "5%",
            onOffline: "fail",
            errorBudget: { failed: 2 },
            freezes: [{ reason: "the holidays" }],
            waves: [
              { name: "lab", clusters: ["eu-lab"] },
              { name: "canary", soak: { seconds: 1800n }, approval: { count: 1 } },
              { name: "one-per-region", eachOf: "region", soak: { seconds: 5400n } },
            ],
          },
          status: { services: 412, takenOver: 410, ...(latest && { latest }) },
        },
      },
    },
    ...row,
  });

/** Returns a hub's policies: one that waits, one that halted, one that runs, ended ones, and one without a rollout. */
export const policyRows = (): FleetRow[] => [
  policyRow(
    "archive",
    rollout({ state: "completed", waitsFor: "", waitsOn: "", arrived: 412, failed: 0, wave: "", endedAt: ago(900) }),
  ),
  policyRow(
    "billing",
    rollout({
      number: 3n,
      waitsFor: 'wave "canary" waits for 1 of 13 members: cart@berlin',
      waitsOn: "member",
      failed: 0,
    }),
  ),
  policyRow(
    "edge/kiosks",
    rollout({ number: 12n, state: "paused", why: "pause by bob: checkout fails", waitsFor: "", waitsOn: "person" }),
  ),
  policyRow("empty", undefined),
  policyRow(
    "payments",
    rollout({
      number: 2n,
      state: "halted",
      why: "3 of 13 members failed: pay@berlin (APPLY_REJECTED), pay@osaka, pay@quito",
      failed: 3,
    }),
    { reason: Reason.ROLLOUT_STOPPED, since: ago(40) },
  ),
  policyRow("shops", rollout(), {
    reason: Reason.ROLLOUT_STOPPED,
    message: "rollout 7 waits for a person",
    since: ago(12),
  }),
  policyRow(
    "old",
    rollout({
      number: 4n,
      state: "rolledBack",
      why: "2 of 10 members failed: web@boston",
      arrived: 0,
      endedAt: ago(4000),
    }),
  ),
];

/** Returns the answer to GetRollout with so many members, of which the one with index 40 has failed. */
export function rolloutAnswer(of = rollout(), count = 60): GetRolloutResponse {
  const members = Array.from({ length: count }, (_, index) => {
    const service = `web-${index}@${index % 2 ? "berlin" : "boston"}`;
    if (index === 40) {
      const why = "it counts as failed since 2026-11-28T10:51:00Z: APPLY_REJECTED quota of namespace shop is used up";
      return create(RolloutMemberSchema, { service, wave: "canary", stage: "failed", why });
    }
    if (index < 3) return create(RolloutMemberSchema, { service, wave: "lab", stage: "arrived" });
    if (index < 16) return create(RolloutMemberSchema, { service, wave: "canary", stage: "arrived" });
    return create(RolloutMemberSchema, {
      service,
      wave: "rest",
      stage: "waiting",
      why: 'wave "rest" has not begun; the current one is "canary"',
    });
  });
  return create(GetRolloutResponseSchema, { rollout: of, members });
}

/** Returns what the hub answers about the rollouts of each policy of the rows. */
export const rolloutAnswers = {
  getRollout: ({ number }: { number: bigint }) => rolloutAnswer(number === 6n ? earlier() : rollout()),
  listRollouts: () => ({ rollouts: [rollout(), earlier()] }),
};

const earlier = () =>
  rollout({
    number: 6n,
    state: "completed",
    wave: "",
    waitsFor: "",
    waitsOn: "",
    arrived: 412,
    failed: 0,
    startedAt: ago(3000),
    endedAt: ago(2800),
    contents: [{ repository: "shop", commit: "8".repeat(40) }],
  });
