// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import {
  type GlobalServiceStatusSchema,
  type ListGlobalServiceMembersRequest,
  type ListGlobalServiceMembersResponse,
  ListGlobalServiceMembersResponseSchema,
} from "../src/gen/leat/fleet/v1/global_service_pb";
import { type FleetRow, FleetRowSchema } from "../src/gen/leat/fleet/v1/query_pb";
import { ServicePhase } from "../src/gen/leat/type/v1/state_pb";
import { ago } from "./hub.ts";

// Invented global services.

type Status = MessageInitShape<typeof GlobalServiceStatusSchema>;

export const globalRow = (
  ref: string,
  status: Status,
  row: Pick<Partial<FleetRow>, "reason" | "message" | "since"> = {},
) =>
  create(FleetRowSchema, {
    ref,
    name: ref.slice(ref.indexOf("/") + 1),
    document: {
      object: {
        case: "globalService",
        value: {
          metadata: { name: ref },
          spec: {
            description: "Every edge cluster has an ingress.",
            clusters: {
              labels: { matchLabels: { tier: "edge" } },
              names: ["eu-lab"],
              when: "self.kubernetes.minor >= 30",
            },
            template: { namespace: "ingress", sources: [{ repository: "platform", path: "ingress" }] },
            overrides: [{ name: "large-regions" }, { name: "eu" }],
          },
          status,
        },
      },
    },
    ...row,
  });

export const globalRows = (): FleetRow[] => [
  globalRow("edge/agent", { clusters: 12, healthy: 12 }),
  globalRow(
    "ingress",
    {
      clusters: 1000,
      healthy: 997,
      conflicts: 1,
      failing: 1,
      forbidden: 4,
      held: 2,
      heldDigest: "5f2b",
      problem: { reason: Reason.REMOVAL_HELD, message: "2 clusters no longer meet spec.clusters.when", since: ago(50) },
    },
    { reason: Reason.REMOVAL_HELD, message: "2 clusters no longer meet spec.clusters.when", since: ago(50) },
  ),
  globalRow("monitoring", { clusters: 1000, healthy: 990, failing: 3 }),
  globalRow("logging", { clusters: 1000, healthy: 900, unhealthy: 40 }),
  globalRow("policies", { clusters: 3, unhealthy: 3 }),
  globalRow("new", {}),
];

/** Answers with two pages of members. Some of the first have a problem. */
export function globalMembers({ name, page }: ListGlobalServiceMembersRequest): ListGlobalServiceMembersResponse {
  const offset = page?.token === "p2" ? 100 : 0;
  const members = Array.from({ length: offset > 0 ? 7 : 100 }, (_, index) => {
    const cluster = ["berlin", "osaka", "quito", "boston"][offset + index] ?? `store-${offset + index}`;
    const phase = index === 3 ? ServicePhase.PROGRESSING : ServicePhase.HEALTHY;
    const status = {
      phase,
      sources: [{ snapshot: { commit: "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e" } }],
      report: { phase, phaseSince: ago(300 + index) },
    };
    return {
      cluster,
      matched: index % 2 ? "labels" : "labels+when",
      overrides: index % 3 ? [] : ["eu"],
      service: { metadata: { name: `${name}@${cluster}` }, status },
      held: offset === 0 && index === 2,
      ...(offset === 0 &&
        index === 1 && {
          problem: {
            reason: Reason.GLOBAL_SERVICE_CONFLICT,
            message: "a person wrote the service ingress@osaka, which stays",
            since: ago(60),
          },
        }),
    };
  });
  return create(ListGlobalServiceMembersResponseSchema, { members, nextPageToken: offset > 0 ? "" : "p2" });
}
