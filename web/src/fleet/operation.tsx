// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ReactNode, useEffect, useState } from "react";
import { type Failure, failureOf, KnownError } from "../hub/failure.ts";
import { type Hub, useHub } from "../hub/hub.ts";
import { type KubeObject, leatServiceOf, loadObject, type Place } from "../kube/object.ts";
import {
  budgetOf,
  evict,
  loadAutoscalers,
  type Operation,
  type Seen,
  type Setter,
  seeField,
  setField,
  settersOf,
} from "../kube/operate.ts";
import { Button } from "../parts/button.tsx";
import { Command } from "../parts/command.tsx";
import { TextField } from "../parts/field.tsx";
import { LogLine } from "../parts/line.tsx";
import { Dialog } from "../parts/overlay.tsx";
import { Notice } from "../parts/states.tsx";
import { text } from "../text/en.ts";
import { reach } from "../text/reach.ts";
import { ActionFailure, useAction } from "./action.tsx";
import { kubectl } from "./kubectl.ts";
import styles from "./operation.module.css";
import { shellQuote } from "./refs.ts";

const words = reach.operate;

/** Known is what there is before an operation. */
interface Known {
  object: KubeObject;
  /** The field that it changes. An eviction changes none. */
  seen: Seen;
  autoscalers: readonly string[];
}

async function look(hub: Hub, place: Place, operation: Operation, signal: AbortSignal): Promise<Known> {
  const object = await loadObject(hub, place.path, place.address, signal);
  const { uid = "", resourceVersion: version = "" } = object.metadata ?? {};
  if (operation === "evict") return { object, seen: { uid, version, value: "" }, autoscalers: [] };
  const [seen, autoscalers] = await Promise.all([
    seeField(hub, place, operation, signal),
    operation === "scale" ? loadAutoscalers(hub, place, String(object.kind ?? ""), signal) : [],
  ]);
  return { object, seen, autoscalers };
}

const said = (message: string) => new KnownError({ kind: "invalid", reason: "", message, metadata: {} });

/** Does an operation, or asks the cluster whether it would. It throws what a person has to read. */
async function operate(
  hub: Hub,
  place: Place,
  operation: Operation,
  { seen, value, isDryRun }: { seen: Seen; value: string; isDryRun: boolean },
  signal: AbortSignal,
): Promise<void> {
  if (operation === "evict") {
    try {
      await evict(hub, place, { uid: seen.uid, isDryRun }, signal);
    } catch (thrown) {
      const budget = budgetOf(thrown);
      throw budget === undefined ? thrown : said(`${words.budget(budget)} ${words.budgetAdvice}`);
    }
    return;
  }
  const now = await setField(hub, place, operation, { seen, value, isDryRun }, signal);
  if (!now) return;
  const shown = now.value === "" ? words.nothing : now.value;
  const object = await loadObject(hub, place.path, place.address, signal).catch(() => undefined);
  const setter = object && settersOf(object, operation)[0]?.manager;
  throw said(setter ? words.changedBy(setter, shown) : words.changedTo(shown));
}

/** Returns the command line of kubectl that does the same. It has no word for an eviction, but sends one as it is. */
function commandOf(place: Place, operation: Operation, seen: Seen | undefined, value: string): string {
  const { path, address } = place;
  if (operation === "restart") return kubectl(place, "rollout restart");
  if (operation === "scale") {
    const current = seen ? ` --current-replicas=${seen.value}` : "";
    return kubectl(place, "scale", `--replicas=${value || "N"}${current}`);
  }
  const { namespace, name } = address;
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } };
  const url = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`;
  return `printf '%s' ${shellQuote(JSON.stringify(eviction))} | kubectl --context ${shellQuote(`leat-${path}`)} create --raw ${shellQuote(url)} -f -`;
}

const most = 2 ** 31 - 1;
const isCount = (typed: string) => /^\d{1,10}$/.test(typed) && Number(typed) <= most;

export interface OperationProps {
  operation: Operation;
  place: Place;
  onClose: () => void;
  onDone?: () => void;
}

const pause = 300;

/** OperationDialog asks the cluster whether it would do an operation, says what it does, and does it. */
export function OperationDialog({ operation, place, onClose, onDone }: OperationProps) {
  const hub = useHub();
  const { name } = place.address;
  const [known, setKnown] = useState<Known>();
  const [typed, setTyped] = useState<string>();
  const [trial, setTrial] = useState<{ value: string; failure: Failure | undefined }>();
  const { run, running, failure } = useAction();

  // biome-ignore lint/correctness/useExhaustiveDependencies: what there was when the dialog opened is what it is about
  useEffect(() => {
    const ended = new AbortController();
    look(hub, place, operation, ended.signal).then(setKnown, (thrown) => {
      if (!ended.signal.aborted) setTrial({ value: "", failure: failureOf(thrown) });
    });
    return () => ended.abort();
  }, []);

  const number = (typed ?? known?.seen.value ?? "").trim();
  const [now] = useState(() => new Date(hub.surroundings.now()).toISOString().replace(/\.\d+Z$/, "Z"));
  const value = operation === "scale" ? String(Number(number)) : operation === "restart" ? now : "";
  const objection = objectionOf(operation, known, number);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the object is the one that was read when the dialog opened
  useEffect(() => {
    if (!known || objection !== undefined) return;
    const ended = new AbortController();
    setTrial(undefined);
    const ask = async () => {
      // A number is typed digit by digit.
      if (operation === "scale") await hub.surroundings.sleep(pause, ended.signal);
      if (ended.signal.aborted) return;
      const how = { seen: known.seen, value, isDryRun: true };
      const failure = await operate(hub, place, operation, how, ended.signal).then(() => undefined, failureOf);
      if (!ended.signal.aborted) setTrial({ value, failure });
    };
    void ask();
    return () => ended.abort();
  }, [known, value, objection]);

  const isTried = trial !== undefined && (trial.failure !== undefined || trial.value === value);
  const refused = trial?.failure?.message ?? objection ?? (isTried ? undefined : words.asking);
  return (
    <Dialog
      title={words.titles[operation](name)}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button
            kind={operation === "scale" && value !== "0" ? "primary" : "danger"}
            busy={running !== undefined}
            refused={refused}
            onClick={() =>
              void run(operation, async () => {
                if (!known) return "";
                const how = { seen: known.seen, value, isDryRun: false };
                await operate(hub, place, operation, how, new AbortController().signal);
                onDone?.();
                onClose();
                return words.done[operation](name);
              })
            }
          >
            {words.verbs[operation]}
          </Button>
        </>
      }
    >
      <div className={styles.operation}>
        {known && <Before operation={operation} known={known} />}
        {operation === "scale" && known && (
          <TextField
            label={words.pods}
            help={words.podsNow(known.seen.value)}
            value={number}
            most={10}
            onChange={setTyped}
          />
        )}
        {operation === "scale" && value === "0" && objection === undefined && (
          <Notice tone="warn" icon="alert" title={words.toZero} />
        )}
        {trial?.failure ? (
          <ActionFailure failure={trial.failure} />
        ) : (
          <p role="status">
            {!known ? words.reading : (objection ?? (isTried ? words.would[operation] : words.asking))}
          </p>
        )}
        <Command label={text.sameAs}>{commandOf(place, operation, known?.seen, number)}</Command>
        <ActionFailure failure={failure} />
      </div>
    </Dialog>
  );
}

/** Returns why an operation makes no sense before the cluster is asked, or undefined. */
function objectionOf(operation: Operation, known: Known | undefined, number: string): string | undefined {
  if (!known) return words.reading;
  if (operation === "restart" && known.object.kind === "Deployment" && specOf(known.object).paused === true)
    return words.paused;
  if (operation !== "scale") return undefined;
  if (!isCount(number)) return words.podsWrong;
  return Number(number) === Number(known.seen.value) ? words.same : undefined;
}

const specOf = ({ spec }: KubeObject) => (spec ?? {}) as Record<string, unknown>;

/** Returns how a workload replaces its pods. */
function strategyOf(object: KubeObject): unknown {
  const spec = specOf(object);
  const strategy = (spec.strategy ?? spec.updateStrategy) as { type?: unknown } | undefined;
  return strategy?.type;
}

/** Before is what a person has to know before they agree: what the operation does, and who undoes it. */
function Before({ operation, known }: { operation: Operation; known: Known }): ReactNode {
  const { object, autoscalers } = known;
  if (operation === "evict") {
    const owners = object.metadata?.ownerReferences;
    return (
      <>
        <p>{words.evictBody}</p>
        {!(Array.isArray(owners) && owners.length > 0) && <Notice tone="warn" icon="alert" title={words.noOwner} />}
      </>
    );
  }
  const setters = settersOf(object, operation);
  const service = leatServiceOf(object);
  const isPutBack = setters.some(({ isLeat }) => isLeat);
  const strategy = strategyOf(object);
  return (
    <>
      {operation === "restart" && <p>{words.restartBody}</p>}
      {operation === "restart" && strategy === "Recreate" && <Notice tone="warn" icon="alert" title={words.recreate} />}
      {operation === "restart" && strategy === "OnDelete" && <Notice tone="idle" icon="info" title={words.onDelete} />}
      {autoscalers.length > 0 && (
        <Notice
          tone="warn"
          icon="alert"
          title={<LogLine most={1000}>{words.autoscaled(text.list(autoscalers.slice(0, 5)))}</LogLine>}
        />
      )}
      {isPutBack && <Notice tone="warn" icon="alert" title={words.putBack(service?.name)} />}
      <Setters setters={setters} />
    </>
  );
}

function Setters({ setters }: { setters: readonly Setter[] }) {
  if (setters.length === 0) return null;
  const names = setters.slice(0, 5).map(({ manager, isLeat }) => reach.object.manager(manager, isLeat));
  return (
    <p className={styles.quiet}>
      <LogLine most={1000}>{words.setBy(text.list(names))}</LogLine>
    </p>
  );
}
