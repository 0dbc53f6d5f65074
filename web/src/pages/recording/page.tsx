// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createClient } from "@connectrpc/connect";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { Card, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { TunnelService } from "../../gen/leat/tunnel/v1/tunnel_pb";
import { type Failure, failureOf } from "../../hub/failure.ts";
import { useHub } from "../../hub/hub.ts";
import { permit } from "../../hub/permit.ts";
import { Button } from "../../parts/button.tsx";
import { CastReader, countUntil, findIn, mostMatches, playTimes } from "../../parts/cast.ts";
import { Command } from "../../parts/command.tsx";
import { FilterField } from "../../parts/filter.tsx";
import { Screen } from "../../parts/screen.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import type { Screen as Made } from "../../parts/xterm.ts";
import type { RecordingSearch } from "../../shell/router.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { size, text } from "../../text/en.ts";
import { clock, recordings } from "../../text/terminal.ts";
import styles from "./page.module.css";
import { Drawer } from "./player.ts";

const route = getRouteApi("/recordings/$");

interface Loaded {
  reader: CastReader;
  /** Changes when more has arrived. */
  version: number;
  isWhole: boolean;
  failure: Failure | undefined;
}

/** How often the page shows what has arrived. */
const step = 250;

/** Reads a recording in pieces, for as long as the component is there. */
function useRecording(id: string): Loaded & { retry: () => void } {
  const hub = useHub();
  const [attempt, setAttempt] = useState(0);
  const [loaded, setLoaded] = useState<Loaded & { of: string }>();
  const of = `${id} ${attempt}`;
  useEffect(() => {
    const ended = new AbortController();
    const reader = new CastReader();
    let version = 0;
    const show = (change: { isWhole?: boolean; failure?: Failure } = {}) => {
      version += 1;
      if (!ended.signal.aborted) setLoaded({ of, reader, version, isWhole: false, failure: undefined, ...change });
    };
    const read = async () => {
      let shown = performance.now();
      await permit(hub, { cluster: "", verb: "get", resource: "recordings" });
      const call = createClient(TunnelService, hub.tunnel).getRecording({ id }, { signal: ended.signal });
      for await (const { data } of call) {
        reader.read(data);
        if (reader.isOver) break;
        if (performance.now() - shown > step) {
          shown = performance.now();
          show();
        }
      }
      reader.end();
      show({ isWhole: true });
    };
    read().catch((thrown) => show({ failure: failureOf(thrown) }));
    return () => ended.abort();
  }, [hub, id, of]);
  const now = loaded?.of === of ? loaded : { reader: new CastReader(), version: 0, isWhole: false, failure: undefined };
  return { ...now, retry: () => setAttempt(attempt + 1) };
}

/** RecordingPage plays a recorded session. The address holds the place, the speed, and what is looked for. */
export function RecordingPage() {
  const { _splat: id = "" } = route.useParams();
  const { reader, version, isWhole, failure, retry } = useRecording(id);
  const { subject = "", cluster = "", namespace = "", pod = "", container = "" } = reader.about;
  useTitle(recordings.title(pod));
  const command = `leat session play ${shellQuote(id)}`;
  if (failure && reader.events.length === 0) return <ErrorState failure={failure} onRetry={retry} command={command} />;
  if (version === 0) return <Skeleton lines={12} />;
  if (reader.fault?.is === "foreign") {
    return (
      <Empty icon="unknown" title={recordings.faults.foreign}>
        <p>{recordings.faults.foreignBody}</p>
        <Command>{`leat session export ${shellQuote(id)}`}</Command>
      </Empty>
    );
  }
  const where = [subject.replace(/^user:/, ""), cluster, `${namespace}/${pod}`, container];
  return (
    <Page>
      <div className={styles.head}>
        <p>
          <Link to="/recordings">{text.recordings}</Link>
        </p>
        <h1>{recordings.title(pod)}</h1>
        <p>{where.filter((part) => part !== "" && part !== "/").join(" · ")}</p>
        <Command label={text.sameAs}>{command}</Command>
      </div>
      <Faults reader={reader} />
      {failure && (
        <Notice tone="warn" icon="alert" title={recordings.faults.cut}>
          <p>{failure.message}</p>
          <p>
            <Button onClick={retry}>{text.tryAgain}</Button>
          </p>
        </Notice>
      )}
      {!isWhole && !failure && <Notice tone="idle" icon="half" title={recordings.loading(size(reader.bytes))} />}
      {reader.events.length === 0 ? (
        isWhole && <Empty icon="info" title={recordings.empty} />
      ) : (
        <Player key={id} reader={reader} version={version} isWhole={isWhole || failure !== undefined} />
      )}
    </Page>
  );
}

function Faults({ reader: { fault } }: { reader: CastReader }) {
  if (!fault || fault.is === "foreign") return null;
  const { damaged, torn, long } = recordings.faults;
  const words = fault.is === "damaged" ? damaged(fault.line) : fault.is === "torn" ? torn : long;
  return <Notice tone={fault.is === "damaged" ? "warn" : "idle"} icon="alert" title={words} />;
}

const speeds = [1, 2, 4, 8] as const;

function Player({ reader, version, isWhole }: { reader: CastReader; version: number; isWhole: boolean }) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/recordings/$" });
  const { events } = reader;
  const speed = search.speed ?? 1;
  const skipsIdle = search.idle !== true;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the events grow with the version
  const times = useMemo(() => playTimes(events, skipsIdle), [events, skipsIdle, version]);
  const length = times.at(-1) ?? 0;
  const drawer = useRef<Drawer>(undefined);
  const [isPlaying, setPlaying] = useState(false);
  // The address holds a time of the session, which stays when idle times are skipped; the player counts played time.
  const played = (at: number) =>
    times[
      Math.max(
        0,
        events.findLastIndex((event) => event.at <= at),
      )
    ] ?? 0;
  const [position, setPosition] = useState(() => (search.at ? played(search.at) : 0));
  const place = useRef(position);

  const change = (next: { [Key in keyof RecordingSearch]?: RecordingSearch[Key] | undefined }) =>
    void navigate({
      to: ".",
      search: (now) => Object.fromEntries(Object.entries({ ...now, ...next }).filter(([, each]) => each)),
      replace: true,
    });
  const draw = (at: number) => {
    place.current = at;
    setPosition(at);
    drawer.current?.to(countUntil(times, at));
  };
  const remember = (at = place.current) => {
    const event = events[Math.max(0, countUntil(times, at) - 1)];
    change({ at: event && Math.round(event.at * 100) / 100 });
  };
  const seek = (at: number) => {
    draw(at);
    if (!isPlaying) remember(at);
  };

  // More of the recording has arrived, or its times have changed: the picture is that of the same place.
  useEffect(() => drawer.current?.to(countUntil(times, place.current)), [times]);
  useEffect(() => () => drawer.current?.end(), []);

  useEffect(() => {
    if (!isPlaying) return;
    let frame = 0;
    let last = performance.now();
    const tick = (now: number) => {
      // A tab that was hidden goes on where it was.
      const next = Math.min(place.current + (Math.min(now - last, 250) / 1000) * speed, length);
      last = now;
      place.current = next;
      setPosition(next);
      drawer.current?.to(countUntil(times, next));
      if (next >= length && isWhole) setPlaying(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, speed, length, times, isWhole]);

  const isAtEnd = position >= length && isWhole;
  const toggle = () => {
    if (isPlaying) remember();
    else if (isAtEnd) draw(0);
    setPlaying(!isPlaying);
  };
  const setIdle = (skips: boolean) => {
    // The same event stays in sight, at its new time.
    const index = Math.max(0, countUntil(times, place.current) - 1);
    place.current = playTimes(events, skips)[index] ?? 0;
    setPosition(place.current);
    change({ idle: skips ? undefined : true });
  };
  const at = clock(position);
  return (
    <Card title={recordings.player}>
      <div className={styles.controls}>
        <Button kind="primary" icon={isPlaying ? "pause" : "chevron"} onClick={toggle}>
          {isPlaying ? recordings.pause : isAtEnd && length > 0 ? recordings.again : recordings.start}
        </Button>
        <input
          type="range"
          className={styles.line}
          aria-label={recordings.position}
          aria-valuetext={recordings.timeOf(at, clock(length))}
          min={0}
          max={length}
          step={length < 20 ? "any" : 1}
          value={position}
          onChange={(event) => seek(Number(event.target.value))}
        />
        <span className={styles.time}>{recordings.timeOf(at, clock(length))}</span>
        <label className={styles.choice}>
          {recordings.speed}
          <select
            value={speed}
            onChange={(event) => change({ speed: speeds.slice(1).find((n) => n === Number(event.target.value)) as 2 })}
          >
            {speeds.map((n) => (
              <option key={n} value={n}>
                {recordings.times(n)}
              </option>
            ))}
          </select>
        </label>
        <label className={styles.choice}>
          <input type="checkbox" checked={skipsIdle} onChange={(event) => setIdle(event.target.checked)} />
          {recordings.skipIdle}
        </label>
      </div>
      <div className={styles.screen}>
        <Screen
          options={{ label: recordings.screen, size: reader.size }}
          onReady={(made: Made) => {
            drawer.current = new Drawer(made, events, () => reader.size);
            drawer.current.to(countUntil(times, place.current));
          }}
        />
      </div>
      <Find
        reader={reader}
        version={version}
        wanted={search.find ?? ""}
        onFind={(find) => change({ find })}
        timeOf={(event) => times[event] ?? 0}
        onJump={(at) => {
          setPlaying(false);
          draw(at);
          remember(at);
        }}
      />
    </Card>
  );
}

function Find({
  reader,
  version,
  wanted,
  onFind,
  timeOf,
  onJump,
}: {
  reader: CastReader;
  version: number;
  wanted: string;
  onFind: (wanted: string) => void;
  timeOf: (event: number) => number;
  onJump: (at: number) => void;
}) {
  const looked = useDeferredValue(wanted);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the events grow with the version
  const matches = useMemo(() => findIn(reader.events, looked), [reader, version, looked]);
  return (
    <div className={styles.find}>
      <FilterField label={recordings.find} placeholder={recordings.findPlaceholder} value={wanted} onChange={onFind} />
      {looked !== "" && (
        <>
          <p role="status">{recordings.matches(matches.length, mostMatches)}</p>
          <ul className={styles.matches}>
            {matches.map(({ event, before, found, after }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: matches are alike and keep their order
              <li key={index}>
                <button type="button" onClick={() => onJump(timeOf(event))}>
                  <span className={styles.time}>{clock(timeOf(event))}</span>
                  <span className={styles.text}>
                    {before}
                    <mark>{found}</mark>
                    {after}
                  </span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
