// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Client } from "@connectrpc/connect";
import type { GetFleetStatusResponse, QueryService } from "../gen/leat/fleet/v1/query_pb";
import type { Source } from "./live.ts";

/**
 * Returns the source of the fleet's problems. The hub groups them by the likeness of their messages, which no stream
 * does: a query counts by whole values, and by no message. So a stream of everything of services that makes a problem
 * shows when to ask again: it speaks at most once a second, and of the counts alone.
 */
export function statusSource(client: Client<typeof QueryService>): Source<GetFleetStatusResponse> {
  const query = { kind: "Service", size: 1, order: "severity", groupBy: ["phase", "reason", "drifted", "synced"] };
  const load = (signal: AbortSignal) => client.getFleetStatus({}, { signal });
  return {
    load,
    async *follow(from, signal) {
      let status = from;
      let isFirst = true;
      for await (const _ of client.watchQuery({ query }, { signal })) {
        // The first message repeats what was just loaded. A heartbeat brings what changed of clusters and repositories.
        if (!isFirst) status = await load(signal);
        isFirst = false;
        yield status;
      }
    },
  };
}
