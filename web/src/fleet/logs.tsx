// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type KeyboardEvent, type UIEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { useHub } from "../hub/hub.ts";
import { useLive } from "../hub/live.ts";
import { type Finder, type LogSource, logsSource, mostSources, type Logs as Read } from "../kube/logs.ts";
import type { Entry } from "../kube/ring.ts";
import { type Search, searchExpression, searchText } from "../kube/search.ts";
import { plainOf } from "../parts/ansi.ts";
import { Button } from "../parts/button.tsx";
import { Command } from "../parts/command.tsx";
import { FilterField } from "../parts/filter.tsx";
import { LogLine } from "../parts/line.tsx";
import { isOnRow, useRows } from "../parts/rows.ts";
import { Empty, Notice, Skeleton } from "../parts/states.tsx";
import { text } from "../text/en.ts";
import { understand } from "../text/understand.ts";
import styles from "./logs.module.css";
import { Card } from "./page.tsx";
import { ReachFailure, ReachNotice } from "./reach.tsx";
import { shellQuote } from "./refs.ts";
import { TerminalLink } from "./terminal.tsx";

/** LogSearch is what is chosen and looked for, as addresses have it. */
export interface LogSearch {
  pod?: string;
  container?: string;
  find?: string;
  regexp?: boolean;
  since?: number;
  previous?: boolean;
}

export interface LogViewProps {
  /** What the logs are of: a text that differs between any two. */
  of: string;
  title: string;
  find: Finder;
  /** The cluster as the tunnel names it, and as people do. */
  path: string;
  cluster: string;
  /** The namespace of kubectl's command until the first pod is known. */
  namespace: string;
  /** What the logs are of is this pod. Otherwise they are those of several, of which one can be chosen. */
  pod?: string;
  search: LogSearch;
  onChange: (next: { [Key in keyof LogSearch]?: LogSearch[Key] | undefined }) => void;
}

/** LogView is what containers write, merged by time. The address keeps what is chosen and looked for. */
export function LogView({ of, title, find, path, cluster, namespace, pod, search, onChange }: LogViewProps) {
  const hub = useHub();
  const choice = {
    pod: pod ?? search.pod,
    container: search.container,
    since: search.since,
    isPrevious: search.previous,
  };
  const { value, failure, asOf, link, store } = useLive(
    `logs ${of} ${JSON.stringify(choice)}`,
    () => logsSource(hub, path, find, choice),
    hub.surroundings,
    true,
  );
  const searching = useSearching(search.find ?? "", search.regexp === true);
  const objection = searching && "objection" in searching ? searching.objection : undefined;
  const within = value?.sources[0]?.namespace ?? namespace;
  const owners = new Set(value?.sources.map(({ owner }) => owner));
  const [owner = "deployment/NAME"] = owners.size === 1 ? owners : [];
  const command = [
    "kubectl logs",
    choice.pod ? shellQuote(choice.pod) : `${shellQuote(owner)} --all-pods`,
    `-n ${shellQuote(within)}`,
    search.container ? `-c ${shellQuote(search.container)}` : "--all-containers",
    search.previous ? "--previous" : "-f",
    search.since && `--since=${search.since}s`,
  ];
  return (
    <Card title={title} note={<Command label={text.sameAs}>{command.filter(Boolean).join(" ")}</Command>}>
      <div className={styles.tools}>
        <FilterField
          label={understand.logs.find}
          placeholder={understand.logs.findPlaceholder}
          value={search.find ?? ""}
          error={objection === undefined ? undefined : understand.logs.objection(objection)}
          onChange={(find) => onChange({ find })}
        />
        <Check
          label={understand.logs.regexp}
          value={search.regexp === true}
          onChange={(regexp) => onChange({ regexp })}
        />
        {pod === undefined && (
          <Select
            label={understand.logs.pod}
            all={understand.logs.allPods}
            value={search.pod ?? ""}
            options={(value?.pods ?? []).map((each) => [each, each])}
            onChange={(pod) => onChange({ pod })}
          />
        )}
        <Select
          label={understand.logs.container}
          all={understand.logs.allContainers}
          value={search.container ?? ""}
          options={(value?.containers ?? []).map((container) => [container, container])}
          onChange={(container) => onChange({ container })}
        />
        <Select
          label={understand.logs.since}
          all={understand.logs.sinceTail}
          value={search.since ? String(search.since) : ""}
          options={understand.logs.sinces.map(([seconds, words]) => [String(seconds), words])}
          onChange={(since) => onChange({ since: Number(since) })}
        />
        <Check
          label={understand.logs.previous}
          value={search.previous === true}
          onChange={(previous) => onChange({ previous })}
        />
        {/* The page of a pod has one, too, for the pod's first container. */}
        {choice.pod && (pod === undefined || search.container) && (
          <TerminalLink
            cluster={cluster}
            namespace={value?.sources.find((each) => each.pod === choice.pod)?.namespace ?? namespace}
            pod={choice.pod}
            container={search.container}
          />
        )}
      </div>
      {!value && !failure && <Skeleton lines={8} />}
      {!value && failure && <ReachFailure failure={failure} cluster={cluster} onRetry={store.retry} />}
      {value && failure && <ReachNotice failure={failure} onRetry={store.retry} asOf={asOf} />}
      {value && (
        <Shown
          key={JSON.stringify(choice)}
          title={title}
          read={value}
          matches={searching && "matches" in searching ? searching.matches : undefined}
          filter={`${search.regexp === true} ${searching === undefined} ${search.find ?? ""}`}
          isFiltered={search.find !== undefined}
          isLive={link === "live" && !search.previous}
        />
      )}
    </Card>
  );
}

/** Returns the search for a filter. undefined: its expressions are loading, and meanwhile all lines are shown. */
function useSearching(filter: string, isExpression: boolean): Search | undefined {
  const plain = useMemo(() => (isExpression ? undefined : searchText(filter)), [filter, isExpression]);
  const [loaded, setLoaded] = useState<{ filter: string; search: Search }>();
  useEffect(() => {
    if (!isExpression) return;
    let isOver = false;
    searchExpression(filter)
      .catch((): Search => ({ objection: text.partGone }))
      .then((search) => {
        if (!isOver) setLoaded({ filter, search });
      });
    return () => {
      isOver = true;
    };
  }, [filter, isExpression]);
  return plain ?? (loaded?.filter === filter ? loaded.search : undefined);
}

const timeOf = new Intl.DateTimeFormat("en", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});

/** How long the page may be busy with a filter before it shows what it has found. */
const budget = 12;

/**
 * Returns the lines that match, and whether all lines were looked at. A line is looked at once for each filter, and a large log over several frames, so that
 * the page answers while it is searched.
 */
function useMatching(read: Read, matches: ((line: string) => boolean) | undefined, filter: string) {
  const [seen] = useState(() => ({ filter: "", verdicts: new WeakMap<Entry, boolean>() }));
  const [turn, setTurn] = useState(0);
  if (seen.filter !== filter) {
    seen.filter = filter;
    seen.verdicts = new WeakMap();
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: the ring changes with its version, and each turn finds more
  const { found, isDone } = useMemo(() => {
    const found: Entry[] = [];
    const end = performance.now() + budget;
    let isDone = true;
    for (const entry of read.ring.entries) {
      let isMatch = seen.verdicts.get(entry);
      if (isMatch === undefined) {
        if (performance.now() > end) {
          isDone = false;
          break;
        }
        isMatch = matches?.(plainOf(entry.text)) ?? true;
        seen.verdicts.set(entry, isMatch);
      }
      if (isMatch) found.push(entry);
    }
    return { found, isDone };
  }, [read.version, read.ring, filter, turn]);
  useEffect(() => {
    if (isDone) return;
    const timer = setTimeout(() => setTurn(turn + 1));
    return () => clearTimeout(timer);
  }, [isDone, turn]);
  return { found, isDone };
}

const rowHeight = 22;

function Shown({
  title,
  read,
  matches,
  filter,
  isFiltered,
  isLive,
}: {
  title: string;
  read: Read;
  matches: ((line: string) => boolean) | undefined;
  filter: string;
  isFiltered: boolean;
  isLive: boolean;
}) {
  const { ring, sources, failures, omitted, hasGap } = read;
  const { found: entries, isDone } = useMatching(read, matches, filter);
  const [isFollowing, setFollowing] = useState(true);
  const [chosen, setChosen] = useState<Entry>();
  const count = entries.length;
  const { scroller, virtual, current, setActive, move } = useRows({ count, height: rowHeight });
  const last = useRef(0);

  // New lines go on changing the count below, so a screen reader says it once for each filter.
  const [said, setSaid] = useState("");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the filter is what changes
  useEffect(() => {
    if (isDone) setSaid(isFiltered ? understand.logs.matching(count) : "");
  }, [filter, isDone, isFiltered]);

  useEffect(() => {
    if (isFollowing && count > 0) virtual.scrollToIndex(count - 1, { align: "end" });
  }, [isFollowing, count, virtual]);

  const onScroll = ({ currentTarget: at }: UIEvent<HTMLElement>) => {
    const isUp = at.scrollTop < last.current - 1;
    last.current = at.scrollTop;
    // Only a person scrolls up. New lines move the end away, and that is no wish to stay.
    if (isUp) setFollowing(false);
    else if (at.scrollHeight - at.scrollTop - at.clientHeight < rowHeight) setFollowing(true);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOnRow(event)) return;
    if (move(event)) setFollowing(event.key === "End");
    else if (event.key === "Enter") {
      event.preventDefault();
      setChosen(entries[current]);
    }
  };

  // The button that closes the line goes with it, so the focus returns to the lines.
  const close = () => {
    setChosen(undefined);
    scroller.current?.querySelector<HTMLElement>("[role=row][tabindex='0']")?.focus();
  };

  const firstFailure = [...failures.values()][0];
  if (sources.length === 0) {
    return (
      <Empty icon="service" title={understand.logs.noPods}>
        <p>{understand.logs.noPodsBody}</p>
      </Empty>
    );
  }
  return (
    <>
      <div className={styles.notices}>
        {firstFailure && (
          <Notice tone="warn" icon="alert" title={understand.logs.failed(failures.size)}>
            <p>
              <LogLine most={500}>{firstFailure.message}</LogLine>
            </p>
          </Notice>
        )}
        {omitted > 0 && <Notice tone="idle" icon="info" title={understand.logs.omitted(omitted, mostSources)} />}
        {ring.dropped > 0 && <Notice tone="idle" icon="info" title={understand.logs.dropped(ring.dropped)} />}
        {hasGap && <Notice tone="warn" icon="alert" title={understand.logs.gap} />}
      </div>
      {count === 0 && failures.size === sources.length ? null : count === 0 ? (
        <Empty icon="info" title={isFiltered ? understand.logs.noMatch : understand.logs.noLines}>
          {!isFiltered && <p>{understand.logs.noLinesBody}</p>}
        </Empty>
      ) : (
        <div className={styles.frame}>
          <div ref={scroller} className={styles.scroller} onScroll={onScroll}>
            <div
              role="grid"
              aria-label={title}
              aria-rowcount={count}
              aria-colcount={3}
              className={styles.lines}
              style={{ blockSize: virtual.getTotalSize() }}
              onKeyDown={onKeyDown}
            >
              {virtual.getVirtualItems().map(({ index, start }) => {
                const entry = entries[index];
                return (
                  entry && (
                    <Row
                      key={index}
                      entry={entry}
                      source={sources[entry.source]}
                      index={index}
                      offset={start}
                      isCurrent={index === current}
                      isChosen={entry === chosen}
                      onFocus={() => setActive(index)}
                      onChoose={() => setChosen(entry)}
                    />
                  )
                );
              })}
            </div>
          </div>
        </div>
      )}
      <div className={styles.foot}>
        <span role="status" className="unseen">
          {said}
        </span>
        <span>{understand.logs.shown(count, ring.entries.length, sources.length)}</span>
        {isLive && !isFollowing && count > 0 && (
          <Button icon="arrowDown" onClick={() => setFollowing(true)}>
            {understand.logs.newest}
          </Button>
        )}
      </div>
      {chosen && <Chosen entry={chosen} source={sources[chosen.source]} onClose={close} />}
    </>
  );
}

function Row({
  entry,
  source,
  index,
  offset,
  isCurrent,
  isChosen,
  onFocus,
  onChoose,
}: {
  entry: Entry;
  source: LogSource | undefined;
  index: number;
  offset: number;
  isCurrent: boolean;
  isChosen: boolean;
  onFocus: () => void;
  onChoose: () => void;
}) {
  return (
    <div
      role="row"
      data-index={index}
      aria-rowindex={index + 1}
      aria-selected={isChosen}
      tabIndex={isCurrent ? 0 : -1}
      className={styles.row}
      style={{ transform: `translateY(${offset}px)` }}
      onFocus={onFocus}
      onClick={() => {
        if (!getSelection()?.toString()) onChoose();
      }}
    >
      <span role="gridcell" className={styles.time}>
        {entry.at > 0 && timeOf.format(entry.at)}
      </span>
      <span role="gridcell" className={styles.source} title={`${source?.pod} ${source?.container}`}>
        <bdi>{source?.pod}</bdi>
      </span>
      <span role="gridcell" className={styles.line}>
        <LogLine cut={entry.cut}>{entry.text}</LogLine>
      </span>
    </div>
  );
}

/** Chosen is one line in full. */
function Chosen({ entry, source, onClose }: { entry: Entry; source: LogSource | undefined; onClose: () => void }) {
  return (
    <section className={styles.chosen} aria-label={understand.logs.chosen}>
      <div className={styles.chosenHead}>
        <span>
          {source?.pod} · {source?.container} · {entry.at > 0 && new Date(entry.at).toISOString()}
        </span>
        <Button kind="quiet" icon="close" iconOnly onClick={onClose}>
          {text.close}
        </Button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard */}
      <pre tabIndex={0}>
        <LogLine most={64 * 1024} cut={entry.cut}>
          {entry.text}
        </LogLine>
      </pre>
    </section>
  );
}

function Select({
  label,
  all,
  value,
  options,
  onChange,
}: {
  label: string;
  all: string;
  value: string;
  options: readonly (readonly [string, string])[];
  onChange: (value: string) => void;
}) {
  const id = useId();
  // What the address chooses is an option, even if the cluster has no such thing any more.
  const known = value === "" || options.some(([each]) => each === value) ? options : [[value, value], ...options];
  return (
    <div className={styles.select}>
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{all}</option>
        {known.map(([each, words]) => (
          <option key={each} value={each}>
            {words}
          </option>
        ))}
      </select>
    </div>
  );
}

const Check = ({ label, value, onChange }: { label: string; value: boolean; onChange: (value: boolean) => void }) => (
  <label className={styles.check}>
    <input type="checkbox" checked={value} onChange={(event) => onChange(event.target.checked)} />
    {label}
  </label>
);
