// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { useAnswer } from "../../hub/answer.ts";
import { useHub } from "../../hub/hub.ts";

/**
 * Returns the revisions of a service for a part of its page. It reads them again when the agent observes another one, and
 * with each phase that the agent reports, because a phase shows how the latest revision ended.
 */
export function useRevisions(part: string, name: string, service: Service) {
  const hub = useHub();
  const report = service.status?.report;
  return useAnswer(
    `${part} ${name}`,
    JSON.stringify([report?.observedSpecDigest, report?.observedCommits, report?.phase]),
    async (signal) => (await hub.call(FleetService).listRevisions({ service: name }, { signal })).revisions,
    hub.surroundings,
  );
}
