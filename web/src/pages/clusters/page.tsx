// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { clusterColumns } from "../../fleet/columns.tsx";
import { FleetList, filterOf } from "../../fleet/list.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { Views } from "../../fleet/views.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty, Skeleton } from "../../parts/states.tsx";
import type { ClustersSearch, ListSearch } from "../../shell/router.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import { many } from "../../text/many.ts";
import styles from "./page.module.css";

const route = getRouteApi("/clusters/");

const ClusterMap = lazy(() => import("./map/map.tsx").then((module) => ({ default: module.ClusterMap })));

export function ClustersPage() {
  useTitle(text.clusters);
  const search = route.useSearch();
  const navigate = useNavigate();
  const { view, by, ...list } = search;
  const onSearch = (next: ListSearch) =>
    void navigate({ to: "/clusters", search: { ...next, ...(view && { view }), ...(by && { by }) } });
  return (
    <ListPage
      title={text.clusters}
      lead={
        <div className={styles.lead}>
          <ClusterViews search={search} />
          <Link to="/resources" search={filterOf(list) === "" ? {} : { filter: filterOf(list) }}>
            {many.here}
          </Link>
        </div>
      }
    >
      <FleetList
        kind="Cluster"
        noun="clusters"
        search={list}
        onSearch={onSearch}
        {...(view === "map" && {
          summary: (window) => (
            <Suspense fallback={<Skeleton lines={6} />}>
              <ClusterMap
                filter={filterOf(list)}
                window={window}
                by={by ?? ""}
                onBy={(key) =>
                  void navigate({
                    to: "/clusters",
                    search: { ...list, view, ...(key !== "" && { by: key }) },
                    replace: true,
                  })
                }
              />
            </Suspense>
          ),
        })}
        columns={clusterColumns}
        empty={
          <Empty icon="cluster" title={text.noClusters}>
            <p>{text.noClustersBody}</p>
            <Command>leat cluster create NAME -o kubernetes</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}

/** ClusterViews are the ways to look at the clusters: the list alone, or with a map above it. */
function ClusterViews({ search: { view, by: _, ...list } }: { search: ClustersSearch }) {
  return (
    <Views label={delivery.map.views}>
      <Link to="/clusters" search={list} activeOptions={{ exact: true }} aria-current={view ? undefined : "true"}>
        {delivery.map.table}
      </Link>
      <Link
        to="/clusters"
        search={{ ...list, view: "map" }}
        activeOptions={{ exact: true }}
        aria-current={view ? "true" : undefined}
      >
        {delivery.map.map}
      </Link>
    </Views>
  );
}
