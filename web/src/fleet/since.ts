// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ServiceStatus } from "../gen/leat/fleet/v1/resources_pb";
import { ms } from "../hub/time.ts";

/**
 * Returns since when a service is in its phase. The time in a report belongs to the phase that the agent reported: after
 * a push the hub says first that the service is syncing, and nobody has noted when that began.
 */
export function phaseSince(status: ServiceStatus | undefined): number | undefined {
  const report = status?.report;
  return ms(status?.problem?.since) ?? (report?.phase === status?.phase ? ms(report?.phaseSince) : undefined);
}
