// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import {
  FleetSourceAction as Action,
  type FleetSourceStatus,
  type ListFleetSourceDocumentsRequest,
  type ListFleetSourceDocumentsResponse,
  ListFleetSourceDocumentsResponseSchema,
} from "../src/gen/leat/fleet/v1/fleet_source_pb";
import { type FleetRow, FleetRowSchema } from "../src/gen/leat/fleet/v1/query_pb";
import { ProblemSchema } from "../src/gen/leat/type/v1/state_pb";
import { ago } from "./hub.ts";

// Invented fleet sources.

const commit = "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e";

export const sourceRow = (
  ref: string,
  status: Omit<Partial<FleetSourceStatus>, "$typeName" | "$unknown">,
  spec: { dryRun?: boolean; suspended?: boolean } = {},
  row: Pick<Partial<FleetRow>, "reason" | "message" | "since"> = {},
): FleetRow =>
  create(FleetRowSchema, {
    ref,
    name: ref.slice(ref.indexOf("/") + 1),
    can: ["sync", "confirm"],
    document: {
      object: {
        case: "fleetSource",
        value: {
          metadata: { name: ref },
          spec: {
            description: "What the platform team keeps in Git.",
            source: { repository: "fleet", path: "fleet", ref: { selector: { case: "branch", value: "main" } } },
            role: 3,
            hub: true,
            ...spec,
          },
          status: { commit, lookedAt: ago(2), succeededAt: ago(2), documents: 214, managed: 214, ...status },
        },
      },
    },
    ...row,
  });

const held = {
  reason: Reason.FLEET_SOURCE_HELD,
  message: "would remove 5 objects, which is more than its guard allows",
};

/** Returns the row of a source that holds so many removals. */
export const heldRow = (count = 5): FleetRow =>
  sourceRow(
    "fleet",
    {
      held: count,
      heldDigest: "5f2b0c8d9a7e6f10",
      succeededAt: ago(90),
      problem: create(ProblemSchema, { ...held, since: ago(12) }),
    },
    {},
    { ...held, since: ago(12) },
  );

export const sourceRows = (): FleetRow[] => [
  heldRow(),
  sourceRow("edge/kiosks", {}),
  sourceRow(
    "shop/fleet",
    {
      failed: 2,
      problem: create(ProblemSchema, {
        reason: Reason.FLEET_SOURCE_DOCUMENTS,
        message: "2 documents have problems",
        since: ago(40),
      }),
    },
    {},
    { reason: Reason.FLEET_SOURCE_DOCUMENTS, message: "2 documents have problems", since: ago(40) },
  ),
  sourceRow("try", { pending: 7 }, { dryRun: true }),
  sourceRow("old", {}, { suspended: true }),
];

/** Answers with the documents of a source: first those that have failed or are held. */
export function documentsOf({ page }: ListFleetSourceDocumentsRequest, count = 5): ListFleetSourceDocumentsResponse {
  if (page?.token === "2") {
    return create(ListFleetSourceDocumentsResponseSchema, {
      documents: [{ position: "z.yaml:1", kind: "Project", name: "zoo", action: Action.UNCHANGED }],
    });
  }
  return create(ListFleetSourceDocumentsResponseSchema, {
    documents: [
      {
        position: "shop/cart.yaml:14",
        kind: "Service",
        name: "cart@berlin",
        action: Action.FAILED,
        message: 'shop/cart.yaml:21: spec.sources[0].repository: there is no repository "demoo"',
      },
      ...Array.from({ length: count }, (_, index) => ({
        kind: "Service",
        name: `gone-${index}@berlin`,
        action: Action.HELD,
      })),
      { position: "shop/web.yaml:1", kind: "Service", name: "web@berlin", action: Action.CONFIGURED },
      { position: "clusters/berlin.yaml:1", kind: "Cluster", name: "berlin", action: Action.UNCHANGED },
    ],
    nextPageToken: "2",
  });
}
