// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import {
  ImageOrder,
  ImagePolicySchema,
  type ImagePolicySpec,
  ImagePolicySpecSchema,
  type ImagePolicyStatus,
  ImagePolicyStatusSchema,
  ImageSelectionSchema,
} from "../src/gen/leat/fleet/v1/image_policy_pb";
import { type FleetRow, FleetRowSchema } from "../src/gen/leat/fleet/v1/query_pb";
import { ProblemSchema } from "../src/gen/leat/type/v1/state_pb";
import { ago } from "./hub.ts";

// Invented image policies.

const digest = `sha256:${"5f2b".repeat(16)}`;

/** Returns the row of a policy that opens pull requests, after a change of its spec and its status. */
export function imageRow(ref: string, change: (spec: ImagePolicySpec, status: ImagePolicyStatus) => void): FleetRow {
  const spec = create(ImagePolicySpecSchema, {
    repository: "web-image",
    select: { range: ">=1.2 <2" },
    pinDigest: true,
    write: { repository: "demo", branch: "main", path: "apps/shop", pullRequest: true },
  });
  const status = create(ImagePolicyStatusSchema, {
    image: "registry.example.com/shop/web",
    tag: "1.4.2",
    digest,
    lookedAt: ago(1),
    selectedAt: ago(90),
    marks: 3,
    commit: "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e",
    pullRequestUrl: "https://git.example.com/shop/config/pulls/12",
  });
  change(spec, status);
  const value = create(ImagePolicySchema, { metadata: { name: ref }, spec, status });
  const { reason = Reason.UNSPECIFIED, message = "" } = status.problem ?? {};
  const name = ref.slice(ref.indexOf("/") + 1);
  return create(FleetRowSchema, {
    ref,
    name,
    can: ["sync"],
    ...(message !== "" && { reason, message }),
    document: { object: { case: "imagePolicy", value } },
  });
}

export const imageRows = (): FleetRow[] => [
  imageRow("web", () => {}),
  imageRow("shop/cart", (_, status) => {
    status.marks = 0;
    status.commit = "";
    status.pullRequestUrl = "";
    status.problem = create(ProblemSchema, {
      reason: Reason.IMAGE_NO_MARKS,
      message: "no line of a file below apps/shop names the policy",
      since: ago(40),
    });
  }),
  imageRow("old", (spec) => {
    spec.suspended = true;
  }),
  imageRow("seen", (spec) => {
    delete spec.write;
    spec.pinDigest = false;
    spec.select = create(ImageSelectionSchema, {
      pattern: "^main-(?P<version>[0-9]+)$",
      order: ImageOrder.NUMERICAL,
    });
  }),
];
