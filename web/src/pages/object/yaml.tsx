// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createPatch } from "diff";
import { lazy, useMemo, useState } from "react";
import { ActionFailure, useAction } from "../../fleet/action.tsx";
import { useDraft } from "../../fleet/draft.ts";
import { kubectl } from "../../fleet/kubectl.ts";
import { Card } from "../../fleet/page.tsx";
import { KnownError } from "../../hub/failure.ts";
import { useHub } from "../../hub/hub.ts";
import { hasCode } from "../../kube/api.ts";
import { applyFields, type Conflict, editor } from "../../kube/apply.ts";
import { changeOf, type Kept } from "../../kube/change.ts";
import { isSecret, type KubeObject, leatManager, leatServiceOf, loadObject, type Place } from "../../kube/object.ts";
import { valueAt } from "../../kube/valueat.ts";
import { editable, fromYaml, readable, toYaml } from "../../kube/yaml.ts";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { orGone } from "../../parts/gone.ts";
import { LogLine } from "../../parts/line.tsx";
import { Notice } from "../../parts/states.tsx";
import { Unified } from "../../parts/unified.tsx";
import { text } from "../../text/en.ts";
import { reach } from "../../text/reach.ts";
import styles from "./yaml.module.css";

const Editor = lazy(() => orGone(import("../../parts/editor.tsx")).then((module) => ({ default: module.Editor })));

/** Yaml is an object as text. A person who may edits it, and sees what the cluster would store before it does. */
export function Yaml({
  place,
  object,
  mayNot,
  onChange,
}: {
  place: Place;
  object: KubeObject;
  /** Why the person may not edit it, if so. */
  mayNot: string | undefined;
  onChange: () => void;
}) {
  const hub = useHub();
  const draft = useDraft<{ base: KubeObject; edited: string }>(`yaml ${kubectl(place, "edit")}`);
  // An edit goes on from the object that it began with, so that a change of others since then is seen.
  const [base, setBase] = useState(draft.found?.base);
  const { run, running, failure } = useAction();
  const shown = useMemo(() => toYaml(readable(object)), [object]);
  const { name } = place.address;
  if (base) {
    return (
      <Edit
        place={place}
        base={base}
        begun={draft.found?.base === base ? draft.found?.edited : undefined}
        onEdit={(edited) => draft.keep({ base, edited })}
        onEnd={(isChanged) => {
          draft.forget();
          setBase(undefined);
          if (isChanged) onChange();
        }}
      />
    );
  }
  const refused = isSecret(place.address.kind) ? reach.edit.secret : mayNot;
  return (
    <Card title={reach.edit.title} note={<Command label={text.sameAs}>{kubectl(place, "get", "-o yaml")}</Command>}>
      <div className={styles.edit}>
        <div className={styles.buttons}>
          <Button
            refused={refused}
            busy={running !== undefined}
            onClick={() =>
              void run("edit", async () => {
                setBase(await loadObject(hub, place.path, place.address, new AbortController().signal));
                return "";
              })
            }
          >
            {reach.edit.edit}
          </Button>
        </div>
        <ActionFailure failure={failure} />
        <Editor label={reach.edit.label(name)} value={shown} />
      </div>
    </Card>
  );
}

/** Trial is what the cluster answered to a dry run. */
interface Trial {
  /** What was sent, without the version that the answer has. */
  fields: KubeObject;
  kept: readonly Kept[];
  /** The object just before it was sent. */
  before: KubeObject;
  isForced: boolean;
  result: { conflicts: readonly Conflict[] } | { version: string; difference: string | undefined };
}

const mostEdits = 5000;

/** Returns the difference of two objects as lines, or undefined if it is too large to be found. */
function differenceOf(before: KubeObject, after: KubeObject): string | undefined {
  const options = { context: 3, maxEditLength: mostEdits };
  const patch = createPatch("", toYaml(editable(before)), toYaml(editable(after)), "", "", options);
  return patch?.replace(/^[\s\S]*?(?=^@@|(?![\s\S]))/m, "");
}

const invalid = (message: string) => new KnownError({ kind: "invalid", reason: "", message, metadata: {} });

function Edit({
  place,
  base,
  begun,
  onEdit,
  onEnd,
}: {
  place: Place;
  base: KubeObject;
  /** What was typed before the session ended. */
  begun: string | undefined;
  onEdit: (edited: string) => void;
  onEnd: (isChanged: boolean) => void;
}) {
  const hub = useHub();
  const [first] = useState(() => begun ?? toYaml(editable(base)));
  const [edited, setEdited] = useState(first);
  const [trial, setTrial] = useState<Trial>();
  const { run, running, failure, forget } = useAction();
  const { path, address } = place;
  const service = leatServiceOf(base);

  /** Returns the fields to apply. It throws what a person has to correct. */
  const fieldsOf = (): Pick<Trial, "fields" | "kept"> => {
    const parsed = fromYaml(edited);
    if ("words" in parsed) throw invalid(`${reach.edit.wrong}: ${parsed.words}`);
    if ("objection" in parsed) throw invalid(reach.edit.objection[parsed.objection]);
    const was = editable(base);
    const { object } = parsed;
    const isSameObject =
      object.apiVersion === was.apiVersion &&
      object.kind === was.kind &&
      object.metadata?.name === was.metadata?.name &&
      object.metadata?.namespace === was.metadata?.namespace;
    if (!isSameObject) throw invalid(reach.edit.other);
    const { apply, kept } = changeOf(was, object, base.metadata?.managedFields, editor);
    if (!apply) throw invalid(reach.edit.unchanged);
    const { name, namespace, uid } = base.metadata ?? {};
    const metadata = { ...(apply.metadata as object | undefined), name, ...(namespace && { namespace }), uid };
    const { apiVersion = "", kind = "" } = was;
    return { fields: { ...apply, apiVersion, kind, metadata } as KubeObject, kept };
  };

  const compare = (isForced: boolean) =>
    run("compare", async () => {
      const { signal } = new AbortController();
      const { fields, kept } = fieldsOf();
      const before = await loadObject(hub, path, address, signal);
      const answer = await applyFields(hub.clusters, path, address, fields, { isDryRun: true, isForced }, signal);
      setTrial({
        fields,
        kept,
        before,
        isForced,
        result:
          "conflicts" in answer
            ? answer
            : {
                version: before.metadata?.resourceVersion ?? "",
                difference: differenceOf(before, answer.object),
              },
      });
      return "";
    });

  const apply = ({ fields, isForced }: Trial, version: string) =>
    run("apply", async () => {
      const metadata = { ...fields.metadata, resourceVersion: version };
      const how = { isDryRun: false, isForced };
      try {
        const answer = await applyFields(
          hub.clusters,
          path,
          address,
          { ...fields, metadata },
          how,
          new AbortController().signal,
        );
        if ("conflicts" in answer) throw invalid(reach.edit.changed);
      } catch (thrown) {
        if (hasCode(thrown, 409)) throw invalid(reach.edit.changed);
        throw thrown;
      }
      onEnd(true);
      return reach.edit.applied(address.name);
    });

  return (
    <Card title={reach.edit.title} note={<Command label={text.sameAs}>{kubectl(place, "edit")}</Command>}>
      <div className={styles.edit}>
        {service && <Notice tone="warn" icon="alert" title={reach.edit.managed(service.name)} />}
        {trial ? (
          <Answer trial={trial} name={address.name} />
        ) : (
          <Editor
            label={reach.edit.label(address.name)}
            value={edited}
            onChange={(next) => {
              setEdited(next);
              onEdit(next);
              if (failure) forget();
            }}
          />
        )}
        <ActionFailure failure={failure} />
        <div className={styles.buttons}>
          {!trial && (
            <Button kind="primary" busy={running !== undefined} onClick={() => void compare(false)}>
              {reach.edit.compare}
            </Button>
          )}
          {trial && "conflicts" in trial.result && (
            <Button kind="danger" busy={running !== undefined} onClick={() => void compare(true)}>
              {reach.edit.takeOver}
            </Button>
          )}
          {trial && "version" in trial.result && (
            <Button
              kind={trial.isForced ? "danger" : "primary"}
              busy={running !== undefined}
              refused={trial.result.difference === "" ? reach.edit.same : undefined}
              onClick={() => void ("version" in trial.result && apply(trial, trial.result.version))}
            >
              {reach.edit.apply}
            </Button>
          )}
          {trial && (
            <Button
              onClick={() => {
                forget();
                setTrial(undefined);
              }}
            >
              {reach.edit.back}
            </Button>
          )}
          <Button kind="quiet" onClick={() => onEnd(false)}>
            {reach.edit.discard}
          </Button>
        </div>
      </div>
    </Card>
  );
}

/** Answer is what the cluster would do, or who has set what the edit would change. */
function Answer({ trial: { fields, before, result, kept }, name }: { trial: Trial; name: string }) {
  return (
    <>
      {kept.length > 0 && (
        <Notice tone="warn" icon="alert" title={reach.edit.kept}>
          <p>{reach.edit.keptBody}</p>
          <ul>
            {kept.map(({ field, managers }) => (
              <li key={field}>{reach.edit.keptBy(field, text.list([...managers]))}</li>
            ))}
          </ul>
        </Notice>
      )}
      {"conflicts" in result ? (
        <Notice tone="warn" icon="lock" title={reach.edit.conflicts}>
          <p>{reach.edit.conflictsBody}</p>
          {result.conflicts.map(({ manager, fields: claimed }) => (
            <section key={manager} className={styles.conflict}>
              <h3>{reach.object.manager(manager.slice(0, 128), manager === leatManager)}</h3>
              {manager === leatManager && <p>{reach.edit.putBack}</p>}
              <ul>
                {claimed.map((field) => (
                  <li key={field}>
                    <code>{field.slice(0, 500)}</code>
                    <Both theirs={valueAt(before, field)} yours={valueAt(fields, field)} />
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </Notice>
      ) : (
        <>
          <h3>{reach.edit.difference}</h3>
          {result.difference === undefined ? (
            <p>{reach.edit.tooFar}</p>
          ) : result.difference === "" ? (
            <p>{reach.edit.same}</p>
          ) : (
            <Unified name={name} unified={result.difference} />
          )}
        </>
      )}
    </>
  );
}

const wordsOf = (value: unknown) =>
  value === undefined ? reach.edit.noValue : typeof value === "string" ? value : JSON.stringify(value);

/** Both are the two values of a field that an edit would take over: the one in the cluster, and the one of the edit. */
function Both({ theirs, yours }: { theirs: unknown; yours: unknown }) {
  return (
    <dl className={styles.both}>
      <div>
        <dt>{reach.edit.theirs}</dt>
        <dd>
          <LogLine most={300}>{wordsOf(theirs)}</LogLine>
        </dd>
      </div>
      <div>
        <dt>{reach.edit.yours}</dt>
        <dd>
          <LogLine most={300}>{wordsOf(yours)}</LogLine>
        </dd>
      </div>
    </dl>
  );
}
