// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { createContext, lazy, Suspense, use, useCallback, useEffect, useMemo, useState } from "react";
import { ObjectHealth } from "../../fleet/health.tsx";
import { Operations } from "../../fleet/operate.tsx";
import { Card } from "../../fleet/page.tsx";
import { ReachFailure, ReachNotice } from "../../fleet/reach.tsx";
import { refIn, shellQuote } from "../../fleet/refs.ts";
import { TerminalLink } from "../../fleet/terminal.tsx";
import { Views } from "../../fleet/views.tsx";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { agentEventSource } from "../../kube/activity.ts";
import { inventorySource } from "../../kube/inventory.ts";
import { clusterPath, type Place, placeOf } from "../../kube/names.ts";
import { familySource } from "../../kube/owned.ts";
import { type Ref, workloadOf } from "../../kube/refs.ts";
import { Age } from "../../parts/age.tsx";
import { Command } from "../../parts/command.tsx";
import { IsCurrent } from "../../parts/current.ts";
import type { Column } from "../../parts/grid.tsx";
import { type Branch, Outline } from "../../parts/outline.tsx";
import { Stale } from "../../parts/phase.tsx";
import { Empty, Notice, Skeleton } from "../../parts/states.tsx";
import { act } from "../../text/act.ts";
import { text } from "../../text/en.ts";
import { understand } from "../../text/understand.ts";
import { noteOf } from "./note.ts";
import styles from "./objects.module.css";
import { healthOf, isWell, type Known, type Node, opensByItself, outlineOf, rowsOf } from "./tree.ts";

/** The cluster as people name it, for the links of rows. */
const Cluster = createContext("");

/** How many workloads are followed at once. Each costs the cluster two or three reads every ten seconds. */
const mostFollowed = 12;

const Graph = lazy(() => import("./graph.tsx").then((module) => ({ default: module.Graph })));

/** Objects is everything that a service has in its cluster, as its agent sees it, and the pods below it. */
export function Objects({ name, service }: { name: string; service: Service }) {
  const hub = useHub();
  const place = placeOf(service);
  const command = `leat inventory service/${shellQuote(name)}`;
  const cluster = service.spec?.cluster ?? "";
  const [isWaiting, setWaiting] = useState(false);
  const { value, failure, asOf, link, store } = useLive(
    `inventory ${name}`,
    () => inventorySource(hub, place, setWaiting),
    hub.surroundings,
    true,
  );
  // The way to the agent is held open by its events: they end at once where it breaks, which a read finds out later.
  const way = useLive(`way ${name}`, () => agentEventSource(hub, place), hub.surroundings, true);
  const isBroken = way.link === "reconnecting";
  // The agent's report at the hub changes before the next read is due, and so does what the hub says about the agent.
  const { counts, phase } = service.status?.report ?? {};
  const { reason } = service.status?.problem ?? {};
  const version = `${phase} ${counts?.total} ${counts?.healthy} ${counts?.failed} ${reason} ${isBroken}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of these is what to read again for
  useEffect(() => store.replace(inventorySource(hub, place, setWaiting)), [version, store]);

  const silence = isWaiting && !failure && <Silence asOf={asOf} />;
  if (!value) {
    if (failure) return <ReachFailure failure={failure} cluster={cluster} onRetry={store.retry} command={command} />;
    return (
      <>
        {silence}
        <Skeleton lines={8} />
      </>
    );
  }
  const isOld = link !== "live" || isWaiting;
  return (
    <>
      {failure && <ReachNotice failure={failure} onRetry={store.retry} asOf={asOf} />}
      {silence}
      {value.objects.length === 0 ? (
        <Empty icon="service" title={understand.tree.none}>
          <p>{understand.tree.noneBody}</p>
          <Command>{command}</Command>
        </Empty>
      ) : (
        <Stale value={isOld}>
          <Cluster value={refIn(service.metadata?.project ?? "", service.spec?.cluster ?? "")}>
            <Tree key={name} name={name} place={place} objects={value.objects} command={command} />
          </Cluster>
          {value.hasMore && (
            <Notice tone="idle" icon="info" title={understand.tree.moreObjects(value.objects.length)} />
          )}
        </Stale>
      )}
    </>
  );
}

/** Silence says that the agent takes long to answer, and of when what is shown is. */
function Silence({ asOf }: { asOf: number | undefined }) {
  return (
    <div role="status">
      <Notice tone="idle" icon="clock" title={understand.reach.silent}>
        {asOf !== undefined && (
          <p>
            {understand.reach.shownFrom} <Age at={asOf} />
          </p>
        )}
      </Notice>
    </div>
  );
}

function Tree({
  name,
  place,
  objects,
  command,
}: {
  name: string;
  place: Place;
  objects: Parameters<typeof outlineOf>[0];
  command: string;
}) {
  const navigate = useNavigate({ from: "/services/$" });
  const { view } = useSearch({ from: "/services/$" });
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [known, setKnown] = useState<ReadonlyMap<string, Known>>(new Map());
  const nodes = useMemo(() => outlineOf(objects, known), [objects, known]);
  const isOpen = (node: Node) => chosen.get(node.key) ?? opensByItself(node);
  const branches = rowsOf(nodes, isOpen);
  // The first object that is not well is in sight, and the first in the order of tabs.
  const [start] = useState(() =>
    Math.max(
      0,
      branches.findIndex(({ item }) => item.is !== "group" && !isWell(healthOf(item))),
    ),
  );

  const unfolded = branches.filter(({ item, isOpen }) => isOpen && item.is === "object" && workloadOf(item.ref));
  const followed = unfolded.slice(0, mostFollowed);
  const learn = useCallback((key: string, next: Known) => setKnown((all) => new Map(all).set(key, next)), []);

  const onFold = (branch: Branch<Node>, open: boolean) => setChosen((all) => new Map(all).set(branch.key, open));
  const onOpen = (node: Node) => {
    if (node.is === "owned" && node.owned.kind === "Pod")
      void navigate({ to: ".", search: { tab: "logs", pod: node.owned.name } });
  };

  const bad = objects.filter((object) => !isWell(object.health)).length;
  return (
    <Card title={understand.tree.title(objects.length, bad)} note={<Command label={text.sameAs}>{command}</Command>}>
      {followed.map(
        ({ key, item }) =>
          item.is === "object" && <Reader key={key} id={key} place={place} subject={item.ref} onKnown={learn} />,
      )}
      {unfolded.length > mostFollowed && (
        <Notice tone="idle" icon="info" title={understand.tree.mostFollowed(mostFollowed)} />
      )}
      <ObjectViews view={view} />
      {view === "graph" ? (
        <Suspense fallback={<Skeleton lines={8} />}>
          <Graph name={name} branches={branches} start={start} onFold={onFold} onOpen={onOpen} />
        </Suspense>
      ) : (
        <Outline
          label={understand.tree.label}
          columns={columns}
          branches={branches}
          start={start}
          onFold={onFold}
          onOpen={onOpen}
        />
      )}
    </Card>
  );
}

/** ObjectViews are the ways to look at the objects: as text, or drawn. Both unfold the same. */
function ObjectViews({ view }: { view: "graph" | undefined }) {
  return (
    <div className={styles.views}>
      <Views label={act.graph.views}>
        <Link
          from="/services/$"
          to="."
          search={{ tab: "objects" }}
          replace
          activeOptions={{ exact: true }}
          aria-current={view ? undefined : "true"}
        >
          {act.graph.outline}
        </Link>
        <Link
          from="/services/$"
          to="."
          search={{ tab: "objects", view: "graph" }}
          replace
          activeOptions={{ exact: true }}
          aria-current={view ? "true" : undefined}
        >
          {act.graph.graph}
        </Link>
      </Views>
    </div>
  );
}

/** Reader reads what a workload owns for as long as that is in sight. It shows nothing itself. */
function Reader({
  id,
  place,
  subject,
  onKnown,
}: {
  id: string;
  place: Place;
  subject: Ref;
  onKnown: (key: string, known: Known) => void;
}) {
  const hub = useHub();
  const { value, failure } = useLive(
    `owned ${id}`,
    () => familySource(hub, place.cluster, subject),
    hub.surroundings,
    true,
  );
  useEffect(() => {
    if (value || failure) onKnown(id, { family: value, failure });
  }, [id, value, failure, onKnown]);
  return null;
}

function Name({ node }: { node: Node }) {
  if (node.is === "note") return <span className={styles.note}>{noteOf(node)}</span>;
  if (node.is === "group") {
    const total = node.counts.reduce((sum, { count }) => sum + count, 0);
    return (
      <span className={styles.name}>
        <span className={styles.kind}>{node.kind}</span> <strong>× {text.number(total)}</strong>
      </span>
    );
  }
  const { kind, name } = node.is === "owned" ? node.owned : node.ref;
  return (
    <span className={styles.name} title={`${kind} ${name}`}>
      <span className={styles.kind}>{kind}</span> <strong>{name}</strong>
    </span>
  );
}

const pods = { groupVersion: "v1", resource: "pods" };

/** RowOperations are what can be done with the workload or the pod of a row. */
function RowOperations({ subject }: { subject: Ref }) {
  const cluster = use(Cluster);
  const kind = subject.group === "" && subject.kind === "Pod" ? pods : workloadOf(subject);
  if (!kind) return null;
  const [version = "", group = ""] = kind.groupVersion.split("/").reverse();
  const { resource } = kind;
  const { namespace, name } = subject;
  const place = {
    cluster,
    path: clusterPath(cluster, ""),
    address: { kind: { group, version, resource }, namespace, name },
  };
  return <Operations place={place} scales={scaled.includes(resource)} isQuiet />;
}

/** The workloads of Kubernetes itself that have a scale. */
const scaled = ["deployments", "statefulsets", "replicasets"];

function Details({ node }: { node: Node }) {
  const isCurrent = use(IsCurrent);
  const cluster = use(Cluster);
  if (node.is === "note") return node.failure ? <span title={node.failure.message}>{node.failure.message}</span> : null;
  if (node.is === "group") {
    return node.counts.map(({ health, count }) => understand.tree.countOf(count, text.health[health] ?? "")).join(", ");
  }
  if (node.is === "object") {
    return (
      <>
        <RowOperations subject={node.ref} />
        <span title={node.message.slice(0, 2000)}>
          {node.reason !== "" && <code>{node.reason}</code>} {node.message.slice(0, 500)}
        </span>
      </>
    );
  }
  const { ready, restarts, node: host, kind } = node.owned;
  const parts = [
    understand.tree.ready(ready),
    restarts && understand.tree.restarts(restarts),
    host && understand.tree.onNode(host),
  ];
  return (
    <>
      {kind === "Pod" && (
        <>
          <Link from="/services/$" to="." search={{ tab: "logs", pod: node.owned.name }} tabIndex={isCurrent ? 0 : -1}>
            {understand.logs.tab}
          </Link>
          {" · "}
          <TerminalLink cluster={cluster} namespace={node.owned.namespace} pod={node.owned.name} isQuiet />
          <RowOperations subject={node.owned} />
        </>
      )}
      <span>{parts.filter(Boolean).join(" · ")}</span>
    </>
  );
}

const columns: readonly Column<Node>[] = [
  {
    id: "object",
    title: text.column.object,
    width: "minmax(16rem, 2fr)",
    place: "title",
    cell: (node) => <Name node={node} />,
  },
  {
    id: "namespace",
    title: text.column.namespace,
    width: "minmax(6rem, 0.6fr)",
    cell: (node) => (node.is === "object" ? node.ref.namespace : node.is === "group" ? node.namespace : ""),
  },
  {
    id: "health",
    title: text.column.health,
    width: "10rem",
    place: "state",
    cell: (node) =>
      node.is === "note" ? null : (
        <ObjectHealth
          health={healthOf(node)}
          {...(node.is === "owned" && node.owned.word !== "" && { word: node.owned.word })}
        />
      ),
  },
  {
    id: "details",
    title: text.column.message,
    width: "minmax(12rem, 2.4fr)",
    place: "note",
    cell: (node) => <Details node={node} />,
  },
  {
    id: "age",
    title: understand.tree.age,
    width: "6rem",
    place: "end",
    isNumber: true,
    cell: (node) => (node.is === "owned" ? <Age at={node.owned.createdAt} /> : null),
  },
];
