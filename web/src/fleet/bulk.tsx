// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { Link, useBlocker, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { type Hub, useHub } from "../hub/hub.ts";
import type { Query } from "../hub/list.ts";
import { mostClusters } from "../kube/many.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/overlay.tsx";
import { Notice } from "../parts/states.tsx";
import { say } from "../parts/status.tsx";
import { act } from "../text/act.ts";
import { text } from "../text/en.ts";
import { many } from "../text/many.ts";
import { ActionFailure, type Step, StepDialog, useAction } from "./action.tsx";
import { Bar } from "./bar.tsx";
import { Batch, type Failed } from "./batch.ts";
import styles from "./bulk.module.css";
import { type Gathered, gather, isSame, type Plan, permissions, planOf, type Verb } from "./gather.ts";
import { type PauseHours, PauseLength, pauseEnd, pauseFlag } from "./pause.tsx";
import { shellQuote } from "./refs.ts";
import { allOf, noSelection, type Picked, type Selection, sizeOf, withRows } from "./selection.ts";
import { setPaused, syncService } from "./services.ts";

const words = act.bulk;
const verbs: readonly Verb[] = ["sync", "pause", "resume"];
const mostFailures = 100;
const mostNamed = 20;
const mostMessage = 300;

const doOne = (hub: Hub, verb: Verb, ref: string, options: CallOptions, until?: Timestamp): Promise<unknown> =>
  verb === "sync" ? syncService(hub, ref, options) : setPaused(hub, ref, verb === "pause", options, until);

/**
 * Returns the command line that does the same: to a few services by their names, to all of a filter by that, and to
 * others by a file with their names, because a list of a thousand is no command that somebody reads.
 */
function commandOf(verb: Verb, flag: string, items: readonly Picked[], isWhole: boolean, query: Query): string {
  const each = `xargs -n 1 leat ${verb}${flag}`;
  if (items.length === 1) return `leat ${verb} service/${shellQuote(items[0]?.ref ?? "")}${flag}`;
  if (items.length <= mostNamed)
    return `printf '%s\\n' ${items.map(({ ref }) => shellQuote(`service/${ref}`)).join(" ")} | ${each}`;
  if (!isWhole) return `${each} < services.txt`;
  const filter = [query.cluster && `cluster=${query.cluster}`, query.filter].filter(Boolean).join(" ");
  const list = ["leat get services", filter && `--filter ${shellQuote(filter)}`, "-o json"];
  const name = `"service/\\(.metadata.project // "default")/\\(.metadata.name)@\\(.spec.cluster)"`;
  return `${list.filter(Boolean).join(" ")} | jq -r '.items[] | ${name}' | ${each}`;
}

/** Said is what a dialog says of a plan before anything is done. */
function Said({ verb, plan, found, moved }: { verb: Verb; plan: Plan; found: Gathered; moved: string | undefined }) {
  return (
    <>
      {moved !== undefined && <Notice tone="warn" icon="alert" title={moved} />}
      <p>{words.bodies[verb]}</p>
      {found.clusters !== undefined && <p>{words.inClusters(found.clusters)}</p>}
      {plan.refused > 0 && <Notice tone="idle" icon="lock" title={words.refused(plan.refused, permissions[verb])} />}
      {plan.already > 0 && <p>{words.already[verb](plan.already)}</p>}
      <p className={styles.quiet}>{words.pageDoes}</p>
    </>
  );
}

export interface BulkProps {
  query: Query;
  /** How many the filter selects, as the list shows it. */
  total: number;
  selection: Selection;
  onSelection: (selection: Selection) => void;
  /** Nothing is selected, and nothing runs or is left to read. */
  onIdle: () => void;
}

/**
 * Bulk does the same to many services. What a selection means is read from the hub before, and again when the person has
 * agreed: if that differs, it asks again. The hub has a call for one service alone, so this page makes the calls.
 */
export function Bulk({ query, total, selection, onSelection, onIdle }: BulkProps) {
  const hub = useHub();
  const { run, running, failure, forget } = useAction();
  const [step, setStep] = useState<Step>();
  const [batch, setBatch] = useState<{ verb: Verb; of: Batch<Picked> }>();
  const count = sizeOf(selection);
  const turns = useRef(0);

  useEffect(() => {
    if (count === 0 && !batch && running === undefined && !failure) onIdle();
  }, [count, batch, running, failure, onIdle]);

  const begin = (verb: Verb, items: readonly Picked[], options: CallOptions, until?: Timestamp) => {
    const of = new Batch(items, ({ ref }) => doOne(hub, verb, ref, options, until), hub.surroundings);
    setBatch({ verb, of });
    void of.run().then(({ state, done, failed, left }) => {
      const kept = [...failed.map(({ item }) => item), ...of.untried()];
      onSelection(withRows(noSelection, kept, true));
      if (state === "stopped") say(words.stopped(done, left + failed.length));
      else if (failed.length > 0) say(words.endedBadly(done, failed.length), true);
      else {
        say(words.ended(done));
        setBatch(undefined);
      }
    });
    return words.begun[verb];
  };

  const stepOf = (verb: Verb, found: Gathered, hours: PauseHours, moved?: string, id?: string): Step => {
    const plan = planOf(verb, found.services);
    const isWhole = query.kind === "Service" && selection.isAll && selection.rows.size === 0;
    const isAll = isWhole && plan.items.length === found.services.length;
    const command = (flag: string) => commandOf(verb, flag, plan.items, isAll, query);
    turns.current += 1;
    const own = id ?? `${verb} ${turns.current}`;
    return {
      id: own,
      title: words.titles[verb](plan.items.length),
      verb: words.verbs[verb],
      body: (
        <>
          <Said verb={verb} plan={plan} found={found} moved={moved} />
          {verb === "pause" && (
            <PauseLength hours={hours} onChange={(next) => setStep(stepOf(verb, found, next, moved, own))} />
          )}
        </>
      ),
      command: command(pauseFlag(hours)),
      draft: command(""),
      act: async (options) => {
        const now = await gather(hub, query, selection);
        if (!isSame(found.services, now.services)) {
          const isNumber = found.services.length !== now.services.length;
          const what = isNumber ? words.moved(found.services.length, now.services.length) : words.movedSame;
          setStep(stepOf(verb, now, hours, what));
          throw new ConnectError(what, Code.FailedPrecondition);
        }
        if (plan.items.length === 0) throw new ConnectError(words.none, Code.FailedPrecondition);
        return begin(verb, plan.items, options, pauseEnd(hours, hub.surroundings.now()));
      },
    };
  };

  const ask = async (verb: Verb) => {
    const found = await gather(hub, query, selection);
    const { items, refused, already } = planOf(verb, found.services);
    if (items.length === 0) {
      const why = [
        words.none,
        refused > 0 && words.refused(refused, permissions[verb]),
        already > 0 && words.already[verb](already),
      ];
      throw new ConnectError(why.filter(Boolean).join(" "), Code.FailedPrecondition);
    }
    // What the person saw is a number, and of services alone.
    const isMoved = query.kind === "Service" && selection.isAll && found.services.length !== count;
    setStep(stepOf(verb, found, 0, isMoved ? words.moved(count, found.services.length) : undefined));
    return words.read(found.services.length);
  };

  return (
    <section className={styles.bulk} aria-label={words.label}>
      {batch ? (
        <Run verb={batch.verb} batch={batch.of} onClose={() => setBatch(undefined)} />
      ) : (
        <div className={styles.line}>
          <strong>{words.selected(count, query.kind)}</strong>
          {!selection.isAll && total > count && (
            <Button kind="quiet" onClick={() => onSelection(allOf(total))}>
              {text.selectAll(total)}
            </Button>
          )}
          {verbs.map((verb) => (
            <Button key={verb} busy={running !== undefined} onClick={() => void run(verb, () => ask(verb))}>
              {running === verb ? words.reading : words.verbs[verb]}
            </Button>
          ))}
          {query.kind === "Cluster" && <QueryMany query={query} selection={selection} />}
          <Button
            kind="quiet"
            icon="close"
            onClick={() => {
              forget();
              onSelection(noSelection);
            }}
          >
            {words.clear}
          </Button>
        </div>
      )}
      {!batch && query.kind === "Cluster" && <p className={styles.quiet}>{words.ofClusters}</p>}
      {!batch && <ActionFailure failure={failure} />}
      <StepDialog step={step} onClose={() => setStep(undefined)} />
    </section>
  );
}

/** QueryMany leads to the resources of the clusters that are selected, by their names or by the filter that selects all. */
function QueryMany({ query, selection: { isAll, rows, seen } }: { query: Query; selection: Selection }) {
  const navigate = useNavigate();
  const refused = isAll
    ? rows.size > 0
      ? many.allBut
      : undefined
    : rows.size > mostClusters
      ? many.tooMany(rows.size, mostClusters)
      : undefined;
  const filter = query.filter || "name=*";
  const search = isAll && seen > 0 ? { filter } : { clusters: [...rows.keys()].join(",") };
  return (
    <Button refused={refused} onClick={() => void navigate({ to: "/resources", search })}>
      {many.here}
    </Button>
  );
}

/** Run is how far a batch is. It ends when the page does, so leaving asks first. */
function Run({ verb, batch, onClose }: { verb: Verb; batch: Batch<Picked>; onClose: () => void }) {
  const { state, total, done, failed, left, waits } = useSyncExternalStore(batch.subscribe, batch.current);
  const isRunning = state === "running" || state === "stopping";
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => isRunning && current.pathname !== next.pathname,
    enableBeforeUnload: isRunning,
    withResolver: true,
  });
  useEffect(() => () => batch.stop(), [batch]);
  return (
    <>
      <div className={styles.line}>
        <strong>{isRunning ? words.begun[verb] : words.titles[verb](total)}</strong>
        <span>{words.progress(done, failed.length, left)}</span>
        {waits && <span className={styles.quiet}>{words.waits}</span>}
        {isRunning ? (
          <Button busy={state === "stopping"} onClick={batch.stop}>
            {state === "stopping" ? words.stopping : words.stop}
          </Button>
        ) : (
          <Button onClick={onClose}>{words.close}</Button>
        )}
      </div>
      <Bar
        total={total}
        parts={[
          { tone: "ok", count: done },
          { tone: "bad", count: failed.length },
        ]}
      />
      {failed.length > 0 && <Failures failed={failed} />}
      <Dialog
        title={words.leaveTitle}
        isOpen={blocker.status === "blocked"}
        onClose={() => blocker.reset?.()}
        actions={
          <>
            <Button onClick={() => blocker.reset?.()}>{words.stay}</Button>
            <Button kind="danger" onClick={() => blocker.proceed?.()}>
              {words.leave}
            </Button>
          </>
        }
      >
        <p>{words.leaveBody(left)}</p>
      </Dialog>
    </>
  );
}

/** Failures are what the hub said to each service that failed. Its words are text. */
function Failures({ failed }: { failed: readonly Failed<Picked>[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
    <section className={styles.failures} aria-label={words.failures} tabIndex={0}>
      <ul>
        {failed.slice(0, mostFailures).map(({ item, failure }) => (
          <li key={item.ref}>
            <Link to="/services/$" params={{ _splat: item.ref }}>
              {item.ref}
            </Link>{" "}
            {failure.reason !== "" && <code>{failure.reason}</code>}{" "}
            {failure.kind === "unreachable"
              ? text.notDone
              : failure.message.slice(0, mostMessage) || text.failureTitle[failure.kind]}
          </li>
        ))}
        {failed.length > mostFailures && <li>{words.moreFailures(failed.length - mostFailures)}</li>}
      </ul>
    </section>
  );
}
