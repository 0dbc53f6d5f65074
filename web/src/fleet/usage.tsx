// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Live, LiveStore } from "../hub/live.ts";
import { type Amount, type Metrics, noMetrics, shareOf } from "../kube/metrics.ts";
import { Age } from "../parts/age.tsx";
import { classes } from "../parts/classes.ts";
import { Command } from "../parts/command.tsx";
import { Stale } from "../parts/phase.tsx";
import { Empty, Notice, Skeleton } from "../parts/states.tsx";
import { text } from "../text/en.ts";
import { metrics } from "../text/metrics.ts";
import { understand } from "../text/understand.ts";
import { Card } from "./page.tsx";
import { ReachFailure, ReachNotice } from "./reach.tsx";
import { Table } from "./table.tsx";
import styles from "./usage.module.css";

/** Figures are what pods or nodes use, the fullest first. */
export function Figures({
  noun,
  cluster,
  command,
  live: { value, failure, asOf, link, store },
}: {
  noun: "pod" | "node";
  cluster: string;
  command: string;
  live: Live<Metrics> & { store: LiveStore<Metrics> };
}) {
  if (failure?.reason === noMetrics) {
    return (
      <Empty icon="unknown" title={metrics.noApi}>
        <p>{metrics.noApiBody}</p>
        <Command>kubectl get apiservice v1beta1.metrics.k8s.io</Command>
      </Empty>
    );
  }
  if (!value) {
    if (!failure) return <Skeleton lines={6} />;
    return <ReachFailure failure={failure} cluster={cluster} onRetry={store.retry} command={command} />;
  }
  const { rows, without, hasMore } = value;
  const isNodes = noun === "node";
  return (
    <Card title={isNodes ? metrics.nodes : metrics.pods} note={<Command label={text.sameAs}>{command}</Command>}>
      {failure && <ReachNotice failure={failure} onRetry={store.retry} asOf={asOf} />}
      {rows.length === 0 ? (
        <Empty icon="info" title={metrics.none}>
          <p>{metrics.noneBody}</p>
        </Empty>
      ) : (
        <Stale value={link !== "live"}>
          <Table
            columns={[
              isNodes ? metrics.columns.node : metrics.columns.pod,
              metrics.columns.cpu,
              metrics.columns.memory,
            ]}
            rows={rows.map(({ name, namespace, cpu, memory }) => ({
              key: `${namespace}/${name}`,
              cells: [
                <span key="name" className={styles.name}>
                  {name}
                </span>,
                <Share key="cpu" amount={cpu} write={metrics.cpu} />,
                <Share key="memory" amount={memory} write={metrics.memory} />,
              ],
            }))}
          />
        </Stale>
      )}
      <p className={styles.foot}>
        {asOf !== undefined && (
          <>
            {understand.reach.shownFrom} <Age at={asOf} />.{" "}
          </>
        )}
        {metrics.every}
      </p>
      {without > 0 && <Notice tone="idle" icon="info" title={metrics.without(without, noun)} />}
      {hasMore && (
        <Notice
          tone="idle"
          icon="info"
          title={isNodes ? metrics.hasMoreNodes(rows.length) : metrics.hasMore(rows.length)}
        />
      )}
    </Card>
  );
}

/** Share is what is used, in words, with a bar of how much that is of its bound. */
function Share({ amount, write }: { amount: Amount; write: (n: number) => string }) {
  const share = shareOf(amount);
  if (share === undefined || amount.of === undefined || !amount.bound) {
    return <span>{metrics.unbounded(write(amount.used))}</span>;
  }
  return (
    <div className={styles.share}>
      <span>
        <strong>{metrics.share(share)}</strong> {metrics.of(write(amount.used), write(amount.of), amount.bound)}
      </span>
      <span className={classes(styles.bar, share >= 0.9 && styles.full)} aria-hidden="true">
        <span style={{ inlineSize: `${Math.min(100, share * 100)}%` }} />
      </span>
    </div>
  );
}
