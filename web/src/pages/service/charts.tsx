// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { CommitLink } from "../../fleet/commit.tsx";
import { Card } from "../../fleet/page.tsx";
import { ReachFailure, ReachNotice } from "../../fleet/reach.tsx";
import { refIn, shellQuote, shortCommit } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import {
  type Chart,
  chartsSource,
  type Charts as Figures,
  notConfigured,
  outdated,
  type Range,
  ranges,
} from "../../kube/charts.ts";
import { placeOf } from "../../kube/names.ts";
import { Age } from "../../parts/age.tsx";
import { type Bound, type ChartMark, Swatch, TimeChart, valueAt } from "../../parts/chart.tsx";
import { Command } from "../../parts/command.tsx";
import { Stale } from "../../parts/phase.tsx";
import { useNarrow } from "../../parts/rows.ts";
import { Empty, Notice, Skeleton } from "../../parts/states.tsx";
import { charts as words } from "../../text/charts.ts";
import { text } from "../../text/en.ts";
import { serviceText } from "../../text/service.ts";
import { understand } from "../../text/understand.ts";
import styles from "./charts.module.css";

/** How many pods have their figures open on a narrow screen. */
const fewLines = 4;

/** useCharts reads the figures of a service's pods over the time that the address says. */
export function useCharts(name: string, service: Service) {
  const hub = useHub();
  const { since } = useSearch({ from: "/services/$" });
  const range: Range = ranges.find((each) => each === since) ?? 3600;
  const place = placeOf(service);
  const read = () => chartsSource(hub, place, name, range);
  return { range, live: useLive(`charts ${name} ${range}`, read, hub.surroundings, true) };
}

/** Charts is the CPU and memory of a service's pods over time, with the revisions that were applied. */
export function Charts({
  name,
  service,
  charts: {
    range,
    live: { value, failure, asOf, link, store },
  },
}: {
  name: string;
  service: Service;
  charts: ReturnType<typeof useCharts>;
}) {
  const navigate = useNavigate({ from: "/services/$" });
  const command = `leat metrics service/${shellQuote(name)} --since ${range / 3600}h`;
  const cluster = refIn(service.metadata?.project ?? "", service.spec?.cluster ?? "");
  if (failure?.reason === notConfigured || failure?.reason === outdated) {
    const isOld = failure.reason === outdated;
    return (
      <Card title={words.title}>
        <div className={styles.notice}>
          <Notice tone="idle" icon="info" title={isOld ? words.outdated : words.notSet}>
            <p>{isOld ? words.outdatedBody : words.notSetBody(cluster)}</p>
            <Command>{`leat get cluster ${shellQuote(cluster)} -o yaml`}</Command>
          </Notice>
        </div>
      </Card>
    );
  }
  return (
    <Card title={words.title} note={<Command label={text.sameAs}>{command}</Command>}>
      <fieldset className={styles.ranges}>
        <legend className={styles.legend}>{words.range}</legend>
        {ranges.map((each) => (
          <label key={each}>
            <input
              type="radio"
              name="range"
              checked={each === range}
              onChange={() =>
                void navigate({ to: ".", search: (before) => ({ ...before, since: each }), replace: true })
              }
            />
            <span>{words.ranges[each]}</span>
          </label>
        ))}
      </fieldset>
      {!value ? (
        failure ? (
          <ReachFailure failure={failure} cluster={cluster} onRetry={store.retry} command={command} />
        ) : (
          <Skeleton lines={10} />
        )
      ) : (
        <>
          {failure && <ReachNotice failure={failure} onRetry={store.retry} asOf={asOf} />}
          <Stale value={link !== "live"}>
            <Shown figures={value} service={service} />
          </Stale>
          <p className={styles.foot}>
            {asOf !== undefined && (
              <>
                {understand.reach.shownFrom} <Age at={asOf} />.{" "}
              </>
            )}
            {words.every(60)}
          </p>
        </>
      )}
    </Card>
  );
}

function Shown({ figures, service }: { figures: Figures; service: Service }) {
  const { cpu, memory, marks } = figures;
  const sources = service.spec?.sources ?? [];
  if (cpu.lines.length === 0 && memory.lines.length === 0) {
    return (
      <Empty icon="info" title={words.empty}>
        <p>{words.emptyBody}</p>
      </Empty>
    );
  }
  return (
    <>
      <div className={styles.charts}>
        <One title={words.cpu} chart={cpu} figures={figures} write={words.write.cpu} />
        <One title={words.memory} chart={memory} figures={figures} write={words.write.memory} />
      </div>
      {marks === undefined ? (
        <Notice tone="idle" icon="info" title={words.noRevisions} />
      ) : marks.length === 0 ? (
        <p className={styles.foot}>{words.noMarks}</p>
      ) : (
        <section aria-label={words.marks}>
          <h3 className={styles.heading}>{words.marks}</h3>
          <Table
            columns={[text.column.revision, text.column.commit, text.column.outcome, serviceText.applied]}
            rows={marks.toReversed().map((mark) => ({
              key: mark.number,
              cells: [
                mark.number,
                <CommitLink
                  key="commit"
                  repository={sources.length === 1 ? sources[0]?.repository : undefined}
                  commit={mark.commit}
                  version={mark.version}
                />,
                serviceText.outcome[mark.outcome] ?? text.phase.UNKNOWN,
                <Age key="at" at={mark.at} />,
              ],
            }))}
          />
        </section>
      )}
    </>
  );
}

/** Returns what is marked in the charts, by time. */
function marksOf({ marks = [], syncs = [] }: Figures): ChartMark[] {
  const revisions = marks.map((mark) => ({
    key: mark.number,
    at: mark.at,
    label: mark.number,
    words: words.applied(
      mark.number,
      mark.version || shortCommit(mark.commit),
      words.moment(mark.at),
      serviceText.outcome[mark.outcome] ?? "",
    ),
  }));
  const asked = syncs.map((sync) => ({
    key: `sync ${sync.key}`,
    at: sync.at,
    label: words.sync,
    words: words.synced(sync.by, words.moment(sync.at), sync.reason),
  }));
  return [...revisions, ...asked].sort((a, b) => a.at - b.at);
}

function One({
  title,
  chart,
  figures,
  write,
}: {
  title: string;
  chart: Chart;
  figures: Figures;
  write: (value: number) => string;
}) {
  const [at, setAt] = useState<number>();
  const isNarrow = useNarrow();
  const { from, to, step } = figures;
  const bounds: Bound[] = [];
  if (chart.limit !== undefined)
    bounds.push({ key: "limit", value: chart.limit, label: words.limit(write(chart.limit)) });
  if (chart.request !== undefined)
    bounds.push({ key: "request", value: chart.request, label: words.request(write(chart.request)) });
  return (
    <div className={styles.one}>
      <TimeChart
        title={title}
        lines={chart.lines}
        bounds={bounds}
        marks={marksOf(figures)}
        from={from}
        to={to}
        step={step}
        at={at}
        onMove={setAt}
        write={write}
      />
      {/* On a narrow screen many pods would push the next chart away. */}
      <details open={!isNarrow || chart.lines.length <= fewLines}>
        <summary className={styles.summary}>{words.figures(chart.lines.length)}</summary>
        <Table
          columns={[words.columns.pod, words.columns.at, words.columns.last, words.columns.peak]}
          rows={chart.lines.map((line, index) => {
            const value = at === undefined ? undefined : valueAt(line, at, step);
            return {
              key: line.name,
              cells: [
                <span key="name" className={styles.name}>
                  <Swatch index={index} /> {line.name}
                </span>,
                value === undefined ? words.none : write(value),
                write(line.last),
                write(line.peak),
              ],
            };
          })}
        />
      </details>
      {chart.leftOut > 0 && <Notice tone="idle" icon="info" title={words.leftOut(chart.lines.length, chart.leftOut)} />}
    </div>
  );
}
