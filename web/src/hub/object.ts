// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Client } from "@connectrpc/connect";
import type { Document } from "../gen/leat/fleet/v1/document_pb";
import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import type { FleetRow } from "../gen/leat/fleet/v1/query_pb";
import type { Hub } from "./hub.ts";
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

/** Splits a ref into the project and the name of its object. */
export function splitRef(ref: string): { project: string; name: string } {
  const slash = ref.indexOf("/");
  return slash < 0 ? { project: "default", name: ref } : { project: ref.slice(0, slash), name: ref.slice(slash + 1) };
}

/**
 * Returns the source of one object with its row. It is for kinds whose states the database of the hub has alone, such
 * as rollout policies: a watch of objects notices their edits only, and a watch of a query their states, too.
 * undefined: it was deleted.
 */
export function rowSource(hub: Pick<Hub, "query" | "call">, kind: string, ref: string): Source<FleetRow | undefined> {
  const { project, name } = splitRef(ref);
  const request = {
    query: { kind, project, filter: `name="${name.replaceAll(/["\\]/g, "")}"`, size: 1 },
    documents: true,
  };
  return {
    async load(signal) {
      const { rows } = await hub.query.queryFleet(request, { signal });
      // The hub's own words about an object that is not there, or that the person may not see.
      if (!rows[0]) await hub.call(FleetService).get({ kind, name: ref }, { signal });
      return rows[0];
    },
    async *follow(from, signal) {
      let row = from;
      for await (const change of hub.query.watchQuery(request, { signal })) {
        if (change.hasWindow && change.window.length === 0) row = undefined;
        else row = change.rows[0] ?? row;
        yield row;
      }
    },
  };
}
