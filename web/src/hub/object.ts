// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Client } from "@connectrpc/connect";
import type { Document } from "../gen/leat/fleet/v1/document_pb";
import type { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import type { Source } from "./live.ts";

export type ObjectKind = "Service" | "Cluster" | "Repository";

/** Returns the source of one object: the object, and then its changes. undefined: it was deleted. */
export function objectSource(
  client: Client<typeof FleetService>,
  kind: ObjectKind,
  name: string,
): Source<Document | undefined> {
  return {
    async load(signal) {
      return (await client.get({ kind, name }, { signal })).document;
    },
    async *follow(from, signal) {
      let document = from;
      for await (const change of client.watch({ kind, name }, { signal })) {
        // A message without a document is a heartbeat. A poll that finds nothing new is no change to a repository, so
        // its heartbeats ask when that was.
        if (change.document) document = change.deleted ? undefined : change.document;
        else if (kind === "Repository") document = (await client.get({ kind, name }, { signal })).document;
        yield document;
      }
    },
  };
}
