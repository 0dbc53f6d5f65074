// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Changes } from "../../fleet/changes.tsx";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { ObjectHealth } from "../../fleet/health.tsx";
import { Card } from "../../fleet/page.tsx";
import { PauseOf, PinOf } from "../../fleet/pause.tsx";
import { ReachNotice } from "../../fleet/reach.tsx";
import { shellQuote, shortCommit } from "../../fleet/refs.ts";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import type { Health } from "../../gen/leat/type/v1/state_pb";
import type { Failure } from "../../hub/failure.ts";
import { type Hub, useHub } from "../../hub/hub.ts";
import { type Link as LinkState, polled, useLive } from "../../hub/live.ts";
import { loadEnded } from "../../kube/ended.ts";
import { aboutAny, type Events, type KubeEvent, loadEvents } from "../../kube/events.ts";
import { placeOf } from "../../kube/names.ts";
import { familySource, type Owned, podsOf } from "../../kube/owned.ts";
import { hasPods, keyOf, type Ref, refOf } from "../../kube/refs.ts";
import { Age } from "../../parts/age.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { LogLine } from "../../parts/line.tsx";
import { Stale } from "../../parts/phase.tsx";
import { Skeleton } from "../../parts/states.tsx";
import { condition } from "../../text/condition.ts";
import { text } from "../../text/en.ts";
import { serviceText } from "../../text/service.ts";
import { understand } from "../../text/understand.ts";
import { useRevisions } from "./revisions.ts";
import { worstOf } from "./tree.ts";
import styles from "./why.module.css";

// Why a service is not well: what otherwise takes five commands. The parts ask at once, each has its own error and age,
// and none waits for another, except that a log needs the pod that it is of.

const every = 15_000;
const lastWarnings = 5;
const lastRevisions = 3;

/**
 * Subject is the object that the panel is about: the worst one, and of those that are alike one that has pods. An object
 * whose change was refused may still be as healthy as before.
 */
function subjectOf(service: Service) {
  const objects = (service.status?.report?.objects ?? []).map((object) => ({
    ref: refOf(object.ref),
    health: object.health,
    reason: object.problem ? reasonName(object.problem.reason) : "",
    message: (object.problem?.message ?? "").slice(0, 2000),
  }));
  objects.sort((a, b) => Number(hasPods(b.ref)) - Number(hasPods(a.ref)));
  return worstOf(objects, ({ health }) => health) ?? objects.find(({ reason }) => reason !== "");
}

export function Why({ name, service, onClose }: { name: string; service: Service; onClose: () => void }) {
  const subject = subjectOf(service);
  const before = <Before name={name} service={service} />;
  return (
    <Card
      title={understand.whyPanel.title}
      note={
        <Button kind="quiet" icon="close" iconOnly onClick={onClose}>
          {understand.whyPanel.hide}
        </Button>
      }
    >
      <div className={styles.parts}>
        {subject ? (
          <OfSubject key={keyOf(subject.ref)} name={name} service={service} subject={subject} before={before} />
        ) : (
          <Part title={understand.whyPanel.object}>
            <p>{understand.whyPanel.noObject}</p>
            <Commands commands={[`leat get service ${shellQuote(name)}`, `leat diff service/${shellQuote(name)}`]} />
          </Part>
        )}
        {!subject && before}
      </div>
    </Card>
  );
}

/** Part is one of the parts of the panel. What it shows has an age, and what it could not read is said beside that. */
function Part({
  title,
  live,
  children,
  isWide = false,
}: {
  title: string;
  live?: { asOf: number | undefined; link: LinkState; failure: Failure | undefined; retry: () => void };
  children: ReactNode;
  isWide?: boolean;
}) {
  return (
    <section className={isWide ? styles.wide : styles.part}>
      <div className={styles.title}>
        <h3>{title}</h3>
        {live?.asOf !== undefined && (
          <span className={styles.age}>
            <Age at={live.asOf} />
          </span>
        )}
      </div>
      {live?.failure && <ReachNotice failure={live.failure} onRetry={live.retry} isShort />}
      <Stale value={live?.link === "reconnecting" || live?.link === "paused"}>{children}</Stale>
    </section>
  );
}

const Commands = ({ commands }: { commands: readonly string[] }) => (
  <div className={styles.commands}>
    {commands.map((command) => (
      <Command key={command}>{command}</Command>
    ))}
  </div>
);

function OfSubject({
  name,
  service,
  subject,
  before,
}: {
  name: string;
  service: Service;
  subject: NonNullable<ReturnType<typeof subjectOf>>;
  before: ReactNode;
}) {
  const hub = useHub();
  const { cluster } = placeOf(service);
  const { ref } = subject;
  const isPod = ref.kind === "Pod" && ref.group === "";
  const family = useLive(`why ${name} ${keyOf(ref)}`, () => familySource(hub, cluster, ref), hub.surroundings, true);
  const worst = isPod || !family.value ? undefined : worstOf(podsOf(family.value), (pod) => pod.health);
  const pod = isPod ? ref.name : worst?.name;
  const inNamespace = ref.namespace === "" ? "" : ` -n ${shellQuote(ref.namespace)}`;
  const described = pod ? `pod/${pod}` : `${ref.kind.toLowerCase()}/${ref.name}`;
  return (
    <>
      <Part title={understand.whyPanel.object} live={{ ...family, retry: family.store.retry }}>
        <Line kind={ref.kind} name={ref.name} health={subject.health} />
        {subject.message !== "" && (
          <p className={styles.message}>
            {subject.reason !== "" && <code>{subject.reason}</code>} {subject.message}
          </p>
        )}
        {worst && <OfPod pod={worst} />}
        {hasPods(ref) && !isPod && !family.value && !family.failure && <Skeleton lines={1} />}
        <p>
          <Link from="/services/$" to="." search={{ tab: "objects" }}>
            {understand.whyPanel.allObjects}
          </Link>
        </p>
        <Commands commands={[`kubectl describe ${shellQuote(described)}${inNamespace}`]} />
      </Part>
      <Warnings hub={hub} name={name} cluster={cluster} subject={ref} />
      {before}
      {pod ? (
        <Log key={pod} hub={hub} cluster={cluster} namespace={ref.namespace} pod={pod} />
      ) : (
        hasPods(ref) &&
        (family.value || family.failure) && (
          <Part title={understand.whyPanel.log} isWide>
            <p>{family.value ? understand.whyPanel.noPod : understand.whyPanel.podUnknown}</p>
          </Part>
        )
      )}
    </>
  );
}

function Line({ kind, name, health, word }: { kind: string; name: string; health: Health; word?: string }) {
  return (
    <p className={styles.line}>
      <span className={styles.kind}>{kind}</span> <strong>{name}</strong>
      <ObjectHealth health={health} {...(word && { word })} />
    </p>
  );
}

const OfPod = ({ pod }: { pod: Owned }) => (
  <>
    <Line kind={pod.kind} name={pod.name} health={pod.health} word={pod.word} />
    <p className={styles.quiet}>
      {[
        understand.tree.ready(pod.ready),
        pod.restarts && understand.tree.restarts(pod.restarts),
        pod.node && understand.tree.onNode(pod.node),
      ]
        .filter(Boolean)
        .join(" · ")}
    </p>
  </>
);

function Warnings({ hub, name, cluster, subject }: { hub: Hub; name: string; cluster: string; subject: Ref }) {
  const namespace = subject.namespace || "default";
  const live = useLive<Events>(
    `warnings ${name} ${keyOf(subject)}`,
    () => polled((signal) => loadEvents(hub, cluster, [namespace], true, signal), every, hub.surroundings),
    hub.surroundings,
    true,
  );
  const events = live.value?.events.filter(aboutAny([subject])).slice(0, lastWarnings);
  return (
    <Part title={understand.whyPanel.warnings} live={{ ...live, retry: live.store.retry }}>
      {!events && !live.failure && <Skeleton lines={3} />}
      {events?.length === 0 && <p>{understand.whyPanel.noWarnings}</p>}
      {events && events.length > 0 && (
        <ul className={styles.events}>
          {events.map((event) => (
            <Warning key={event.key} event={event} />
          ))}
        </ul>
      )}
      <Commands commands={[`kubectl events --types=Warning -n ${shellQuote(namespace)}`]} />
    </Part>
  );
}

const Warning = ({ event }: { event: KubeEvent }) => (
  <li>
    <strong>{event.reason}</strong> <span className={styles.quiet}>{`${event.kind} ${event.name}`}</span>{" "}
    <span className={styles.quiet}>
      <Age at={event.at} />
      {event.count > 1 && ` × ${text.number(event.count)}`}
    </span>
    <div className={styles.message}>
      <LogLine most={500}>{event.message}</LogLine>
    </div>
  </li>
);

// The last line is the one to read.
const toEnd = (element: HTMLElement | null) => {
  if (element) element.scrollTop = element.scrollHeight;
};

function Log({ hub, cluster, namespace, pod }: { hub: Hub; cluster: string; namespace: string; pod: string }) {
  const live = useLive(
    `ended ${cluster} ${namespace} ${pod}`,
    () => polled((signal) => loadEnded(hub, cluster, namespace, pod, signal), every, hub.surroundings),
    hub.surroundings,
    true,
  );
  const { value } = live;
  const command = [
    "kubectl logs",
    shellQuote(pod),
    `-n ${shellQuote(namespace)}`,
    value && `-c ${shellQuote(value.container)}`,
    value?.isPrevious && "--previous",
    "--tail=30",
  ];
  return (
    <Part title={understand.whyPanel.log} live={{ ...live, retry: live.store.retry }} isWide>
      {!value && !live.failure && <Skeleton lines={4} />}
      {value && (
        <p className={styles.quiet}>
          {understand.whyPanel.ended(value.container, value.reason, value.exitCode, value.restarts)}
          {value.endedAt !== undefined && (
            <>
              {" "}
              <Age at={value.endedAt} />
            </>
          )}
          {value.isPrevious && ` · ${understand.whyPanel.previous}`}
        </p>
      )}
      {value && value.lines.length > 0 ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard
        <section className={styles.log} ref={toEnd} aria-label={understand.whyPanel.log} tabIndex={0}>
          {value.lines.map((line, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the lines have no other name
            <div key={index}>
              <LogLine cut={line.cut}>{line.text}</LogLine>
            </div>
          ))}
        </section>
      ) : (
        value && <p>{understand.whyPanel.noLog}</p>
      )}
      <Commands commands={[command.filter(Boolean).join(" ")]} />
    </Part>
  );
}

/** What is no commit of Git has a digest, and nobody who made it. */
const isGit = (commit: string | undefined): commit is string =>
  commit !== undefined && /^[0-9a-f]{40,64}$/.test(commit);

/** Before is what changed before: revisions, a pause, a pin, and what others changed in the cluster. */
function Before({ name, service }: { name: string; service: Service }) {
  const { spec, status } = service;
  const { report, hold } = status ?? {};
  const live = useRevisions("before", name, service);
  const drift = report?.drift ?? [];
  return (
    <Part title={understand.whyPanel.before} live={live}>
      {!live.value && !live.failure && <Skeleton lines={2} />}
      <ul className={styles.events}>
        {live.value?.slice(0, lastRevisions).map((revision, index) => (
          <li key={String(revision.number)}>
            <strong>{understand.whyPanel.revision(revision.number)}</strong>{" "}
            <code title={revision.commits.join(", ")}>
              {revision.versions.find(Boolean) ?? shortCommit(revision.commits[0] ?? "")}
            </code>{" "}
            {serviceText.outcome[revision.outcome] ?? text.phase.UNKNOWN}{" "}
            <span className={styles.quiet}>
              <Age at={ms(revision.plannedAt)} />
            </span>
            {index === 0 && isGit(revision.commits[0]) && <Changes service={name} commit={revision.commits[0]} />}
          </li>
        ))}
        {spec?.paused && (
          <li>
            <PauseOf service={service} />
          </li>
        )}
        {hold && hold.pinnedRevision > 0n && (
          <li>
            <PinOf hold={hold} />
          </li>
        )}
        {drift.slice(0, 5).map((object) => (
          <li key={keyOf(refOf(object.ref))}>
            {understand.whyPanel.drifted(`${object.ref?.kind} ${object.ref?.name}`)}{" "}
            <code className={styles.message}>
              {object.fields
                .slice(0, 5)
                .map((field) => field.path)
                .join(", ")}
            </code>
          </li>
        ))}
        {drift.length > 5 && <li>{condition.driftSome(drift.length)}</li>}
      </ul>
      <p>
        <Link from="/services/$" to="." search={{ tab: "revisions" }}>
          {understand.whyPanel.allRevisions}
        </Link>
      </p>
      <Commands commands={[`leat history service/${shellQuote(name)}`]} />
    </Part>
  );
}
