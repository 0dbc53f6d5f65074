// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Crumbs, outer } from "../../fleet/crumbs.tsx";
import { ReachFailure } from "../../fleet/reach.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { loadMayList, type MayList } from "../../kube/access.ts";
import { type Discovery, type Kind, loadDiscovery, resourceOf } from "../../kube/discovery.ts";
import { clusterPath } from "../../kube/names.ts";
import { classes } from "../../parts/classes.ts";
import { Command } from "../../parts/command.tsx";
import { FilterField } from "../../parts/filter.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Empty, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { many } from "../../text/many.ts";
import { reach } from "../../text/reach.ts";
import { Objects } from "./objects.tsx";
import styles from "./page.module.css";

const route = getRouteApi("/clusters/$cluster/resources");

/** ResourcesPage is everything that a cluster's API has: its kinds, or the objects of one of them. */
export function ResourcesPage() {
  const hub = useHub();
  const { cluster } = route.useParams();
  const { kind: wanted } = route.useSearch();
  const path = clusterPath(cluster, "");
  const { value, failure, store } = useLive(
    `discovery ${path}`,
    () => ({ load: (signal) => loadDiscovery(hub.clusters, path, signal) }),
    hub.surroundings,
    true,
  );
  const kind = value?.kinds.find((each) => resourceOf(each) === wanted);
  const title = kind?.kind ?? wanted ?? reach.title;
  useTitle(`${title} · ${cluster}`);
  return (
    <div className={styles.page}>
      <div className={styles.head}>
        <Crumbs label={reach.title}>
          {[
            <Link key="clusters" activeOptions={outer} to="/clusters">
              {text.clusters}
            </Link>,
            <Link key="cluster" activeOptions={outer} to="/clusters/$" params={{ _splat: cluster }}>
              {cluster}
            </Link>,
            ...(wanted
              ? [
                  <Link
                    key="all"
                    activeOptions={outer}
                    to="/clusters/$cluster/resources"
                    params={{ cluster }}
                    search={({ namespace }) => (namespace ? { namespace } : {})}
                  >
                    {reach.allResources}
                  </Link>,
                ]
              : []),
          ]}
        </Crumbs>
        <div className={styles.title}>
          <h1>{title}</h1>
          {wanted && <Elsewhere cluster={cluster} kind={wanted} />}
        </div>
      </div>
      {!value ? (
        failure ? (
          <ReachFailure failure={failure} cluster={cluster} onRetry={store.retry} command={commandOf(path)} />
        ) : (
          <Skeleton lines={8} />
        )
      ) : !wanted ? (
        <Kinds cluster={cluster} path={path} discovery={value} />
      ) : kind ? (
        <Objects cluster={cluster} path={path} kind={kind} />
      ) : (
        <Empty icon="search" title={reach.objects.vanished}>
          <p>{reach.objects.vanishedBody}</p>
          <Command>{commandOf(path)}</Command>
        </Empty>
      )}
    </div>
  );
}

/** Elsewhere leads to the same question in other clusters. This cluster is among them, so that it can be compared. */
function Elsewhere({ cluster, kind }: { cluster: string; kind: string }) {
  const { namespace, labels, fields, name } = route.useSearch();
  const asked = { ...(namespace && { namespace }), ...(labels && { labels }), ...(fields && { fields }) };
  return (
    <Link to="/resources" search={{ kind, clusters: cluster, ...asked, ...(name && { name }) }}>
      {many.others}
    </Link>
  );
}

const commandOf = (path: string) => `kubectl --context ${shellQuote(`leat-${path}`)} api-resources`;

function isFound({ kind, resource, group, shortNames }: Kind, filter: string): boolean {
  const wanted = filter.toLowerCase();
  return [kind, resource, group, resourceOf({ group, resource }), ...shortNames].some((word) =>
    word.toLowerCase().includes(wanted),
  );
}

/** Kinds is what a cluster has, by API group. */
function Kinds({ cluster, path, discovery }: { cluster: string; path: string; discovery: Discovery }) {
  const { filter = "", namespace = "" } = route.useSearch();
  const navigate = useNavigate({ from: "/clusters/$cluster/resources" });
  const mayList = useMayList(path, namespace);
  const found = discovery.kinds.filter((kind) => isFound(kind, filter));
  const groups = [...new Set(found.map(({ group }) => group))];
  return (
    <div className={styles.kinds}>
      <div className={styles.tools}>
        <FilterField
          label={reach.kinds.find}
          placeholder={reach.kinds.placeholder}
          value={filter}
          onChange={(next) =>
            void navigate({
              to: ".",
              search: ({ filter: _, ...rest }) => ({ ...rest, ...(next && { filter: next }) }),
              replace: true,
            })
          }
        />
        <span className={styles.note} role="status">
          {reach.kinds.shown(found.length, discovery.kinds.length)}
        </span>
        <Command label={text.sameAs}>{commandOf(path)}</Command>
      </div>
      {discovery.missing.length > 0 && (
        <Notice tone="warn" icon="alert" title={reach.kinds.missing(text.list([...discovery.missing]))} />
      )}
      {found.length === 0 && (
        <Empty icon="search" title={reach.kinds.none}>
          <p>{reach.kinds.noneBody}</p>
        </Empty>
      )}
      {groups.map((group) => (
        <section key={group} className={styles.group}>
          <h2>{group === "" ? reach.kinds.core : group}</h2>
          <ul>
            {found
              .filter((kind) => kind.group === group)
              .map((kind) => (
                <li key={kind.resource}>
                  <KindLink cluster={cluster} kind={kind} namespace={namespace} mayList={mayList} />
                </li>
              ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

function KindLink({
  cluster,
  kind,
  namespace,
  mayList,
}: {
  cluster: string;
  kind: Kind;
  namespace: string;
  mayList: MayList | undefined;
}) {
  const details = (
    <>
      <span className={styles.name}>{kind.kind}</span>
      <span className={styles.details}>
        {[kind.resource, ...kind.shortNames].join(", ")}
        {!kind.isNamespaced && ` · ${reach.kinds.wholeCluster}`}
      </span>
    </>
  );
  if (namespace !== "" && mayList?.(kind) === false) {
    const why = reach.kinds.mayNot(kind.resource, namespace);
    return (
      <span className={classes(styles.kind, styles.refused)} title={why}>
        <Icon name="lock" />
        {details}
        <span className="unseen">{why}</span>
      </span>
    );
  }
  return (
    <Link
      className={styles.kind}
      to="/clusters/$cluster/resources"
      params={{ cluster }}
      search={{ kind: resourceOf(kind), ...(kind.isNamespaced && namespace && { namespace }) }}
    >
      {details}
    </Link>
  );
}

/** Returns what the person may list in the namespace. Until the cluster has said, and if it does not, nothing is refused. */
function useMayList(path: string, namespace: string): MayList | undefined {
  const { clusters } = useHub();
  const [known, setKnown] = useState<{ of: string; mayList: MayList }>();
  const of = `${path} ${namespace}`;
  useEffect(() => {
    if (namespace === "") return;
    const ended = new AbortController();
    loadMayList(clusters, path, namespace, ended.signal).then(
      (mayList) => setKnown({ of, mayList }),
      // The list itself says what the cluster refuses.
      () => {},
    );
    return () => ended.abort();
  }, [clusters, path, namespace, of]);
  return known?.of === of ? known.mayList : undefined;
}
