// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useId, useMemo, useState } from "react";
import { reasonName } from "../../fleet/columns.tsx";
import { Card } from "../../fleet/page.tsx";
import { ReachFailure, ReachNotice } from "../../fleet/reach.tsx";
import { DiffAction, type ObjectDiff } from "../../gen/leat/agent/v1/agent_pb";
import type { PlanBundle } from "../../gen/leat/distributor/v1/plan_pb";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { agentOf, permitAgent } from "../../kube/inventory.ts";
import { placeOf } from "../../kube/names.ts";
import { refOf } from "../../kube/refs.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { classes } from "../../parts/classes.ts";
import { Command } from "../../parts/command.tsx";
import { Icon } from "../../parts/icon.tsx";
import type { Tone } from "../../parts/phase.tsx";
import { Empty, Notice, Skeleton } from "../../parts/states.tsx";
import { Unified } from "../../parts/unified.tsx";
import { act } from "../../text/act.ts";
import { text } from "../../text/en.ts";
import { understand } from "../../text/understand.ts";
import styles from "./diff.module.css";
import { By, Fields, fieldsOf, isOfOthers, othersOf } from "./fields.tsx";
import { diffCommand, Preview } from "./preview.tsx";

const mostObjects = 500;
const actions = [DiffAction.REFUSE, DiffAction.DELETE, DiffAction.UPDATE, DiffAction.CREATE];
const tones: Record<number, Tone> = {
  [DiffAction.CREATE]: "ok",
  [DiffAction.UPDATE]: "progress",
  [DiffAction.DELETE]: "bad",
  [DiffAction.REFUSE]: "degraded",
};

const nameOf = (object: ObjectDiff): string => {
  const { group, kind, namespace, name } = refOf(object.ref);
  return [group, kind, namespace, name].filter(Boolean).join("/");
};

/**
 * Diff is what a run would change, by a dry run of the cluster's API server. That asks for each object, so it is done
 * when somebody opens the tab and asks for it again, and not now and then. With a ref in the address it is what a run
 * would change if the service followed that.
 */
export function Diff({ name, service }: { name: string; service: Service }) {
  const [turn, setTurn] = useState(0);
  const { ref, repository } = useSearch({ from: "/services/$" });
  const again = () => setTurn(turn + 1);
  return (
    <Preview name={name} service={service} asked={{ ref, repository, turn }}>
      {(bundles) => <Compared name={name} service={service} bundles={bundles} turn={turn} onAgain={again} />}
    </Preview>
  );
}

function Compared({
  name,
  service,
  bundles,
  turn,
  onAgain,
}: {
  name: string;
  service: Service;
  bundles: readonly PlanBundle[] | undefined;
  turn: number;
  onAgain: () => void;
}) {
  const hub = useHub();
  const place = placeOf(service);
  const { others, ref, repository } = useSearch({ from: "/services/$" });
  const navigate = useNavigate({ from: "/services/$" });
  const { value, failure, asOf, link, store } = useLive(
    JSON.stringify(["diff", name, turn, bundles?.map(({ digest }) => digest)]),
    () => ({
      load: async (signal) => {
        await permitAgent(hub, place, "get", "diff");
        const asked = { service: place.service, bundles: [...(bundles ?? [])] };
        return await agentOf(hub, place).diff(asked, { signal });
      },
    }),
    hub.surroundings,
    true,
  );
  const command = diffCommand(name, bundles && ref, repository);
  // What is most dangerous is first.
  const objects = useMemo(
    () => value?.objects.toSorted((a, b) => actions.indexOf(a.action) - actions.indexOf(b.action)),
    [value],
  );
  if (!objects) {
    if (failure) {
      return (
        <ReachFailure failure={failure} cluster={service.spec?.cluster ?? ""} onRetry={store.retry} command={command} />
      );
    }
    return (
      <Card title={bundles ? act.preview.wouldChange : understand.diff.title}>
        <p className={styles.note}>{understand.diff.comparing}</p>
        <Skeleton lines={6} />
      </Card>
    );
  }
  const unchanged = value?.unchanged ?? [];
  // An older agent does not report fields, so of its objects nobody knows who manages them.
  const hasFields = objects.some(({ fields, fieldsOmitted }) => fields.length > 0 || fieldsOmitted > 0);
  const shown = hasFields && others ? objects.filter(isOfOthers) : objects;
  const counts = actions.flatMap((action) => {
    const count = objects.filter((each) => each.action === action).length;
    return count > 0 ? [understand.diff.part(count, understand.diff.counts[action] ?? "")] : [];
  });
  return (
    <Card
      title={bundles ? act.preview.wouldChange : understand.diff.title}
      note={<Command label={text.sameAs}>{command}</Command>}
    >
      {failure && <ReachNotice failure={failure} onRetry={store.retry} asOf={asOf} />}
      <div className={styles.tools}>
        <span>{[...counts, bundles && sameOf(service, objects)].filter(Boolean).join(", ")}</span>
        <span className={styles.note}>
          {understand.diff.readAt} <Age at={asOf} />
        </span>
        <Button busy={link === "loading"} onClick={onAgain}>
          {understand.diff.again}
        </Button>
      </div>
      {hasFields && (
        <label className={styles.others}>
          <input
            type="checkbox"
            checked={others === true}
            onChange={({ target }) =>
              void navigate({
                to: ".",
                search: ({ others: _, ...rest }) => ({ ...rest, ...(target.checked && { others: true }) }),
                replace: true,
              })
            }
          />
          {understand.diff.fields.others}
        </label>
      )}
      {objects.length === 0 ? (
        <Empty icon="check" tone="ok" title={understand.diff.none}>
          <p>{bundles ? act.preview.noneBody : understand.diff.noneBody}</p>
        </Empty>
      ) : (
        <>
          <Objects objects={shown} />
          {shown.length === 0 && (
            <Empty icon="check" tone="ok" title={understand.diff.fields.noOthers}>
              <p>{understand.diff.fields.noOthersBody}</p>
            </Empty>
          )}
          <p className={styles.note}>
            {understand.diff.masked} {bundles && act.preview.noHooks}
          </p>
        </>
      )}
      {unchanged.length > 0 && (
        <section aria-label={understand.diff.unchangedTitle}>
          <div className={styles.unchanged}>
            <h3>{understand.diff.unchangedTitle}</h3>
            <p className={styles.note}>{understand.diff.unchangedNote}</p>
          </div>
          <Objects objects={unchanged} />
        </section>
      )}
    </Card>
  );
}

/** Objects lists objects, of which one can be open: the address names it. */
function Objects({ objects }: { objects: readonly ObjectDiff[] }) {
  const { object, others } = useSearch({ from: "/services/$" });
  const navigate = useNavigate({ from: "/services/$" });
  return (
    <>
      <ul className={styles.list}>
        {objects.slice(0, mostObjects).map((each) => {
          const key = nameOf(each);
          return (
            <Changed
              key={key}
              object={each}
              isOpen={key === object}
              onlyOthers={others === true}
              onOpen={(isOpen) =>
                void navigate({
                  to: ".",
                  search: ({ object: _, ...rest }) => ({ ...rest, ...(isOpen && { object: key }) }),
                  replace: true,
                })
              }
            />
          );
        })}
      </ul>
      {objects.length > mostObjects && (
        <Notice tone="idle" icon="info" title={understand.diff.moreObjects(objects.length - mostObjects)} />
      )}
    </>
  );
}

/**
 * Returns how many objects would stay as they are, or "" if that is not known: an object that is refused may be there or
 * not.
 */
function sameOf(service: Service, objects: readonly ObjectDiff[]): string {
  const total = service.status?.report?.counts?.total;
  if (total === undefined || objects.some(({ action }) => action === DiffAction.REFUSE)) return "";
  const touched = objects.filter(({ action }) => action === DiffAction.UPDATE || action === DiffAction.DELETE);
  return act.preview.same(Math.max(0, total - touched.length));
}

/** Changed is one object that a run would change. One is open at a time, because the address names it. */
function Changed({
  object,
  isOpen,
  onlyOthers,
  onOpen,
}: {
  object: ObjectDiff;
  isOpen: boolean;
  onlyOthers: boolean;
  onOpen: (isOpen: boolean) => void;
}) {
  const id = useId();
  const { kind, namespace, name } = refOf(object.ref);
  const isUnchanged = object.action === DiffAction.UNSPECIFIED;
  const ofOthers = fieldsOf(object).filter((field) => othersOf(field).length > 0);
  const fields = onlyOthers ? ofOthers : fieldsOf(object);
  const omitted = object.fieldsOmitted + object.fields.length - fields.length;
  const words = understand.diff.fields;
  return (
    <li>
      <button
        type="button"
        className={styles.head}
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => onOpen(!isOpen)}
      >
        <span className={classes(styles.sign, isOpen && styles.open)}>
          <Icon name="chevron" />
        </span>
        <Badge tone={tones[object.action] ?? "idle"}>
          {isUnchanged ? understand.diff.unchanged : (understand.diff.actions[object.action] ?? text.phase.UNKNOWN)}
        </Badge>
        <span className={styles.name}>
          <span className={styles.kind}>{kind}</span> <strong>{name}</strong>{" "}
          <span className={styles.kind}>{namespace}</span>
          <By fields={ofOthers} />
        </span>
      </button>
      {isOpen && (
        <div id={id} className={styles.body}>
          {object.problem && (
            <Notice tone="degraded" icon="alert" title={understand.diff.problem}>
              <p>{object.problem.message.slice(0, 2000)}</p>
              <p>
                <code>{reasonName(object.problem.reason)}</code>
              </p>
            </Notice>
          )}
          {(fields.length > 0 || omitted > 0) && (
            <Fields title={words.title} columns={words.columns} fields={fields} omitted={omitted} />
          )}
          {(object.ignored.length > 0 || object.ignoredOmitted > 0) && (
            <Fields
              title={words.ignoredTitle}
              columns={words.ignoredColumns}
              fields={object.ignored}
              omitted={object.ignoredOmitted}
            />
          )}
          {isUnchanged ? null : object.unified === "" ? (
            <p className={styles.note}>{understand.diff.noDetails}</p>
          ) : (
            <Unified name={`${kind} ${name}`} unified={object.unified} />
          )}
        </div>
      )}
    </li>
  );
}
