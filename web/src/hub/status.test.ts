// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { type FleetQuery, QueryService } from "../gen/leat/fleet/v1/query_pb";
import { statusSource } from "./status.ts";

test("problems are asked for again with each change of what makes one, and not for the first message", async () => {
  let asked = 0;
  let watched: FleetQuery | undefined;
  const transport = createRouterTransport(({ service }) => {
    service(QueryService, {
      getFleetStatus: () => {
        asked += 1;
        return { omitted: asked };
      },
      watchQuery: async function* ({ query }) {
        watched = query;
        yield { hasCounts: true };
        yield { hasCounts: true };
        yield {}; // a heartbeat
      },
    });
  });
  const source = statusSource(createClient(QueryService, transport));
  const { signal } = new AbortController();
  const first = await source.load(signal);
  const seen: number[] = [];
  for await (const status of source.follow?.(first, signal) ?? []) seen.push(status.omitted);
  expect(seen).toEqual([1, 2, 3]);
  // The hub counts by at most four fields, and by no message.
  expect(watched?.groupBy).toEqual(["phase", "reason", "drifted", "synced"]);
});
