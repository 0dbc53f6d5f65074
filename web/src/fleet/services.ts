// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { CallOptions } from "@connectrpc/connect";
import { ApplyMode } from "../gen/leat/fleet/v1/document_pb";
import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import type { Hub } from "../hub/hub.ts";
import { text } from "../text/en.ts";
import { reasonName } from "./columns.tsx";

// What people do to one service, or to many one after the other. Each returns a sentence about what it did.

export async function syncService(hub: Hub, name: string, options: CallOptions): Promise<string> {
  const { problem } = await hub.call(FleetService).syncService({ name }, options);
  return problem ? text.syncWithOld(reasonName(problem.reason), problem.message) : text.syncAsked;
}

/**
 * Pauses or resumes a service. The hub has no call for it but Apply, so the service is read again: an edit of others
 * since the page showed it is kept, and one in between is refused by the version.
 */
export async function setPaused(
  hub: Hub,
  name: string,
  isPaused: boolean,
  options: CallOptions,
  until?: Timestamp,
): Promise<string> {
  const { document } = await hub.call(FleetService).get({ kind: "Service", name });
  if (document?.object.case !== "service" || !document.object.value.spec) return text.unchanged;
  const { spec } = document.object.value;
  spec.paused = isPaused;
  if (isPaused && until) spec.pausedUntil = until;
  else delete spec.pausedUntil;
  await hub.call(FleetService).apply({ documents: [document], mode: ApplyMode.UPDATE }, options);
  return isPaused ? text.pausedNow : text.resumedNow;
}
