// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { refIn, shellQuote } from "../../fleet/refs.ts";
import { Figures } from "../../fleet/usage.tsx";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { podMetrics } from "../../kube/metrics.ts";
import { placeOf } from "../../kube/names.ts";
import styles from "./charts.module.css";
import { Charts, useCharts } from "./charts.tsx";

/** PodMetrics is the CPU and memory of a service's pods: over time, and now. */
export function PodMetrics({ name, service }: { name: string; service: Service }) {
  const hub = useHub();
  const place = placeOf(service);
  const charts = useCharts(name, service);
  const now = useLive(`metrics ${name}`, () => podMetrics(hub, place), hub.surroundings, true);
  // A person who is refused both for one reason reads it once.
  const { reason, message } = now.failure ?? {};
  const before = charts.live.value ? undefined : charts.live.failure;
  const isSaid = !now.value && before !== undefined && before.reason === reason && before.message === message;
  return (
    <div className={styles.both}>
      <Charts name={name} service={service} charts={charts} />
      {!isSaid && (
        <Figures
          noun="pod"
          cluster={refIn(service.metadata?.project ?? "", service.spec?.cluster ?? "")}
          command={`kubectl top pods -n ${shellQuote(place.namespace)}`}
          live={now}
        />
      )}
    </div>
  );
}
