// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import { Crumbs, outer } from "../../fleet/crumbs.tsx";
import { kubectl } from "../../fleet/kubectl.ts";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { ReachFailure, ReachNotice } from "../../fleet/reach.tsx";
import { Table } from "../../fleet/table.tsx";
import { TerminalLink } from "../../fleet/terminal.tsx";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { originOf } from "../../kube/api.ts";
import { coreGroup, noNamespace, resourceOf } from "../../kube/discovery.ts";
import { managersOf } from "../../kube/fields.ts";
import { clusterPath } from "../../kube/names.ts";
import {
  conditionsOf,
  isSecret,
  type KubeObject,
  leatManager,
  leatServiceOf,
  loadObjectEvents,
  objectSource,
  type Place,
} from "../../kube/object.ts";
import { type Ancestor, loadAncestors } from "../../kube/owners.ts";
import { Age } from "../../parts/age.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { orGone } from "../../parts/gone.ts";
import { LogLine } from "../../parts/line.tsx";
import { LiveState, Stale, State } from "../../parts/phase.tsx";
import { Empty, Notice, Skeleton } from "../../parts/states.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { reach } from "../../text/reach.ts";
import styles from "./page.module.css";
import { Remove } from "./remove.tsx";
import { useRefusal } from "./rights.ts";
import { Values } from "./secret.tsx";

const Operations = lazy(() =>
  orGone(import("../../fleet/operate.tsx")).then((module) => ({ default: module.Operations })),
);
const PodLogs = lazy(() => orGone(import("./logs.tsx")).then((module) => ({ default: module.PodLogs })));
const Yaml = lazy(() => orGone(import("./yaml.tsx")).then((module) => ({ default: module.Yaml })));

const route = getRouteApi("/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object");

/**
 * ObjectPage is one object of a cluster: what it is, to whom it belongs, what was noted about it, and its YAML. The page
 * of a pod has its logs, too.
 */
export function ObjectPage() {
  const hub = useHub();
  const { cluster, group, version, plural, namespace, object: name } = route.useParams();
  const place: Place = {
    cluster,
    path: clusterPath(cluster, ""),
    address: {
      kind: { group: group === coreGroup ? "" : group, version, resource: plural },
      namespace: namespace === noNamespace ? "" : namespace,
      name,
    },
  };
  const { kind } = place.address;
  const { value, failure, link, asOf, store } = useLive(
    JSON.stringify(["object", place]),
    () => objectSource(hub, place.path, place.address),
    hub.surroundings,
    true,
  );
  useTitle(`${name} · ${cluster}`);
  const isGone = failure?.kind === "missing" && originOf(failure) === "cluster";
  const command = kubectl(place, "describe");
  return (
    <Page>
      <div className={styles.head}>
        <Crumbs label={reach.title}>
          {[
            <Link key="cluster" activeOptions={outer} to="/clusters/$" params={{ _splat: cluster }}>
              {cluster}
            </Link>,
            <Link key="all" activeOptions={outer} to="/clusters/$cluster/resources" params={{ cluster }}>
              {reach.allResources}
            </Link>,
            <Link
              key="kind"
              activeOptions={outer}
              to="/clusters/$cluster/resources"
              params={{ cluster }}
              search={{
                kind: resourceOf(kind),
                ...(place.address.namespace && { namespace: place.address.namespace }),
              }}
            >
              {resourceOf(kind)}
            </Link>,
          ]}
        </Crumbs>
        <div className={styles.line}>
          <h1>
            <LogLine>{name}</LogLine>
          </h1>
          <div className={styles.command}>
            <Command label={text.sameAs}>{command}</Command>
          </div>
        </div>
      </div>
      {isGone ? (
        <Empty icon="search" title={reach.object.gone}>
          <p>{reach.object.goneBody}</p>
          <p>{failure.message}</p>
        </Empty>
      ) : !value ? (
        failure ? (
          <ReachFailure failure={failure} cluster={cluster} onRetry={store.retry} command={command} />
        ) : (
          <Skeleton lines={8} />
        )
      ) : (
        <>
          {failure && <ReachNotice failure={failure} onRetry={store.retry} asOf={asOf} />}
          <Stale value={link !== "live"}>
            <Parts place={place} object={value} onChange={store.retry} />
          </Stale>
        </>
      )}
    </Page>
  );
}

const isPod = ({ group, resource }: Place["address"]["kind"]) => group === "" && resource === "pods";

/** AsYaml asks what the person may do while the part that reads YAML loads. */
function AsYaml({ place, object, onChange }: { place: Place; object: KubeObject; onChange: () => void }) {
  const mayNot = useRefusal(place, "patch");
  return (
    <Suspense fallback={<Skeleton lines={8} />}>
      <Yaml place={place} object={object} mayNot={mayNot} onChange={onChange} />
    </Suspense>
  );
}

function Parts({ place, object, onChange }: { place: Place; object: KubeObject; onChange: () => void }) {
  const { tab = "overview" } = route.useSearch();
  const navigate = useNavigate({ from: route.id });
  const toKind = useNavigate();
  const [isRemoving, setRemoving] = useState(false);
  const mayNotDelete = useRefusal(place, "delete");
  const { kind, namespace } = place.address;
  const hasLogs = isPod(kind);
  return (
    <>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a row that wraps */}
      <div className={styles.buttons} role="group" aria-label={reach.operate.actions}>
        <Suspense>
          <Operations place={place} onDone={onChange} />
        </Suspense>
        <Button refused={mayNotDelete} onClick={() => setRemoving(true)}>
          {reach.remove.button}
        </Button>
        {hasLogs && <TerminalLink cluster={place.cluster} namespace={namespace} pod={place.address.name} />}
      </div>
      {isRemoving && (
        <Remove
          place={place}
          object={object}
          onClose={() => setRemoving(false)}
          onDone={() =>
            void toKind({
              to: "/clusters/$cluster/resources",
              params: { cluster: place.cluster },
              search: { kind: resourceOf(kind), ...(namespace && { namespace }) },
            })
          }
        />
      )}
      <Tabs
        label={place.address.name}
        chosen={tab === "logs" && !hasLogs ? "overview" : tab}
        onChange={(next) =>
          void navigate({
            to: ".",
            search: next === "logs" || next === "events" || next === "yaml" ? { tab: next } : {},
            replace: true,
          })
        }
        tabs={[
          { id: "overview", label: reach.object.overview, content: <Overview place={place} object={object} /> },
          ...(hasLogs
            ? [
                {
                  id: "logs",
                  label: reach.object.logs,
                  content: (
                    <Suspense fallback={<Skeleton lines={8} />}>
                      <PodLogs place={place} />
                    </Suspense>
                  ),
                },
              ]
            : []),
          {
            id: "events",
            label: reach.object.events,
            content: <Events place={place} uid={object.metadata?.uid ?? ""} />,
          },
          {
            id: "yaml",
            label: reach.object.yaml,
            content: <AsYaml place={place} object={object} onChange={onChange} />,
          },
        ]}
      />
    </>
  );
}

const mostShown = 50;
const textOf = (value: unknown, most = 2000) =>
  (typeof value === "string" ? value : JSON.stringify(value ?? "")).slice(0, most);

function Overview({ place, object }: { place: Place; object: KubeObject }) {
  const { metadata = {} } = object;
  const service = leatServiceOf(object);
  const created = Date.parse(String(metadata.creationTimestamp ?? ""));
  const deleted = Date.parse(String(metadata.deletionTimestamp ?? ""));
  const managers = [...new Set(managersOf(metadata.managedFields).map(({ manager = "" }) => manager.slice(0, 128)))];
  const owners = useAncestors(place, object);
  return (
    <div className={styles.overview}>
      {!Number.isNaN(deleted) && (
        <Notice
          tone="warn"
          icon="clock"
          title={
            <>
              {reach.object.deleting} <Age at={deleted} />
            </>
          }
        >
          {Array.isArray(metadata.finalizers) && metadata.finalizers.length > 0 && (
            <p>{reach.object.waitsFor(text.list(metadata.finalizers.slice(0, 20).map((each) => textOf(each, 253))))}</p>
          )}
        </Notice>
      )}
      <Card title={reach.object.facts}>
        <Facts
          facts={[
            [reach.object.kind, textOf(object.kind, 253)],
            place.address.namespace !== "" && [reach.objects.namespace, place.address.namespace],
            [reach.object.apiVersion, textOf(object.apiVersion, 253)],
            !Number.isNaN(created) && [reach.object.created, <Age key="age" at={created} />],
            service && [
              reach.object.service,
              <Link key="service" to="/services/$" params={{ _splat: serviceRef(place.cluster, service) }}>
                {service.name}
              </Link>,
            ],
            owners.length > 0 && [reach.object.owners, <Owners key="owners" place={place} owners={owners} />],
            managers.length > 0 && [
              reach.object.managers,
              text.list(managers.map((name) => reach.object.manager(name, name === leatManager))),
            ],
          ]}
        />
      </Card>
      {isSecret(place.address.kind) && <Values place={place} object={object} />}
      <Conditions object={object} />
      <Pairs title={reach.object.labels} pairs={metadata.labels} />
      <Pairs title={reach.object.annotations} pairs={metadata.annotations} />
    </div>
  );
}

/** Returns the ref of a service in a cluster. The hub writes a project that is not the default one. */
function serviceRef(cluster: string, { name, project }: { name: string; project: string }): string {
  const [own, inProject] = cluster.includes("/") ? cluster.split("/", 2) : ["default", cluster];
  const object = project === "default" ? name : `${project}/${name}`;
  return `${object}@${own === project ? inProject : cluster}`;
}

function Owners({ place, owners }: { place: Place; owners: readonly Ancestor[] }) {
  return (
    <ol className={styles.owners}>
      {owners.map(({ kind, name, address }) => (
        <li key={`${kind} ${name}`}>
          {kind}{" "}
          {address ? (
            <Link
              to="/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object"
              params={{
                cluster: place.cluster,
                group: address.kind.group || coreGroup,
                version: address.kind.version,
                plural: address.kind.resource,
                namespace: address.namespace || noNamespace,
                object: name,
              }}
              preload={false}
            >
              {name}
            </Link>
          ) : (
            name
          )}
        </li>
      ))}
    </ol>
  );
}

/** Returns to what an object belongs. It is asked for again only if its owners change. */
function useAncestors({ path }: Place, object: KubeObject): readonly Ancestor[] {
  const { clusters } = useHub();
  const [known, setKnown] = useState<{ of: string; owners: readonly Ancestor[] }>();
  const of = JSON.stringify([object.metadata?.uid, object.metadata?.ownerReferences]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the owners are what is asked for
  useEffect(() => {
    const ended = new AbortController();
    loadAncestors(clusters, path, object, ended.signal).then(
      (owners) => setKnown({ of, owners }),
      // A chain is a help beside the object.
      () => {},
    );
    return () => ended.abort();
  }, [clusters, path, of]);
  return known?.of === of ? known.owners : [];
}

// A condition is good when it is true, but for these.
const badWhenTrue = /(pressure|unavailable|degraded|failed|failure|stalled|error|terminating)$/i;

function Conditions({ object }: { object: KubeObject }) {
  const conditions = conditionsOf(object);
  if (conditions.length === 0) return null;
  return (
    <Card title={reach.object.conditions}>
      <Table
        columns={reach.object.conditionColumns}
        rows={conditions.map(({ type, status, reason, message, since }, index) => {
          const isGood = (status === "True") !== badWhenTrue.test(type);
          const isKnown = status === "True" || status === "False";
          return {
            key: `${index} ${type}`,
            cells: [
              <LogLine key="type">{type}</LogLine>,
              <LiveState
                key="status"
                tone={!isKnown ? "idle" : isGood ? "ok" : "degraded"}
                icon={!isKnown ? "unknown" : isGood ? "check" : "alert"}
              >
                {status}
              </LiveState>,
              <LogLine key="reason">{reason}</LogLine>,
              <Age key="since" at={since} />,
            ],
            note: message !== "" && <LogLine most={1000}>{message}</LogLine>,
          };
        })}
      />
    </Card>
  );
}

function Pairs({ title, pairs }: { title: string; pairs: unknown }): ReactNode {
  const all = Object.entries((pairs as Record<string, unknown> | undefined) ?? {});
  if (all.length === 0) return null;
  return (
    <Card title={title}>
      <dl className={styles.pairs}>
        {all.slice(0, mostShown).map(([key, value]) => (
          <div key={key}>
            <dt>{key.slice(0, 317)}</dt>
            <dd>
              <LogLine most={300}>{textOf(value)}</LogLine>
            </dd>
          </div>
        ))}
      </dl>
      {all.length > mostShown && <p className={styles.note}>{reach.object.more(all.length - mostShown)}</p>}
    </Card>
  );
}

function Events({ place, uid }: { place: Place; uid: string }) {
  const hub = useHub();
  const { value, failure, store } = useLive(
    JSON.stringify(["events", place.path, uid]),
    () => ({ load: (signal) => loadObjectEvents(hub, place.path, place.address.namespace, uid, signal) }),
    hub.surroundings,
    true,
  );
  if (!value) {
    if (!failure) return <Skeleton lines={4} />;
    return <ReachFailure failure={failure} cluster={place.cluster} onRetry={store.retry} />;
  }
  if (value.length === 0) return <p className={styles.none}>{reach.object.noEvents}</p>;
  return (
    <Card title={reach.object.events}>
      <Table
        columns={reach.object.eventColumns}
        rows={value.map((event) => ({
          key: event.key,
          cells: [
            <State key="reason" tone={event.isWarning ? "warn" : "idle"} icon={event.isWarning ? "alert" : "info"}>
              {event.reason}
            </State>,
            <LogLine key="message" most={500}>
              {event.message}
            </LogLine>,
            text.number(event.count),
            <Age key="at" at={event.at} />,
          ],
        }))}
      />
    </Card>
  );
}
