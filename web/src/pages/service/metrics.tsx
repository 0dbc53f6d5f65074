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
import { Charts } from "./charts.tsx";

/** PodMetrics is the CPU and memory of a service's pods: over time, and now. */
export function PodMetrics({ name, service }: { name: string; service: Service }) {
  return (
    <div className={styles.both}>
      <Charts name={name} service={service} />
      <Now name={name} service={service} />
    </div>
  );
}

function Now({ name, service }: { name: string; service: Service }) {
  const hub = useHub();
  const place = placeOf(service);
  const live = useLive(`metrics ${name}`, () => podMetrics(hub, place), hub.surroundings, true);
  return (
    <Figures
      noun="pod"
      cluster={refIn(service.metadata?.project ?? "", service.spec?.cluster ?? "")}
      command={`kubectl top pods -n ${shellQuote(place.namespace)}`}
      live={live}
    />
  );
}
