// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { repositoryColumns } from "../../fleet/columns.tsx";
import { FleetList } from "../../fleet/list.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";

const route = getRouteApi("/repositories/");

export function RepositoriesPage() {
  useTitle(text.repositories);
  const search = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.repositories}>
      <FleetList
        kind="Repository"
        noun="repositories"
        search={search}
        onSearch={(next) => void navigate({ to: "/repositories", search: next })}
        columns={repositoryColumns}
        empty={
          <Empty icon="repository" title={text.noRepositories}>
            <p>{text.noRepositoriesBody}</p>
            <Command>leat apply -f repository.yaml</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}
