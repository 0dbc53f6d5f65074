// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { clusterColumns } from "../../fleet/columns.tsx";
import { FleetList } from "../../fleet/list.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";

const route = getRouteApi("/clusters/");

export function ClustersPage() {
  useTitle(text.clusters);
  const search = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.clusters}>
      <FleetList
        kind="Cluster"
        noun="clusters"
        search={search}
        onSearch={(next) => void navigate({ to: "/clusters", search: next })}
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
