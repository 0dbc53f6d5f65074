// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AccessAttributesSchema } from "../../gen/leat/fleet/v1/people_pb";

/**
 * Returns the attributes of a request to a cluster, of the words in which kubectl and leat take it: "pods", "pods/log",
 * "deployments.apps", "/metrics".
 */
export function attributesOf(
  verb: string,
  resource: string,
  namespace: string,
): MessageInitShape<typeof AccessAttributesSchema> {
  if (resource.startsWith("/")) return { verb, nonResourcePath: resource, namespace };
  const [, name = "", group = "", subresource = ""] = /^([^./]*)(?:\.([^/]*))?(\/.*)?$/.exec(resource) ?? [];
  return { verb, apiGroup: group, resource: name + subresource, namespace };
}
