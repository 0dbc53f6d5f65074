// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Figures } from "../../fleet/usage.tsx";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { nodeMetrics } from "../../kube/metrics.ts";
import { clusterPath } from "../../kube/names.ts";

/** Nodes is the CPU and memory of a cluster's nodes. */
export function Nodes({ cluster }: { cluster: string }) {
  const hub = useHub();
  const live = useLive(`nodes ${cluster}`, () => nodeMetrics(hub, clusterPath(cluster, "")), hub.surroundings, true);
  return <Figures noun="node" cluster={cluster} command="kubectl top nodes" live={live} />;
}
