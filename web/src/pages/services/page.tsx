// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { isOldRow, serviceColumns } from "../../fleet/columns.tsx";
import { FleetList } from "../../fleet/list.tsx";
import { ListPage } from "../../fleet/page.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";

const route = getRouteApi("/services/");

export function ServicesPage() {
  useTitle(text.services);
  const search = route.useSearch();
  const navigate = useNavigate();
  return (
    <ListPage title={text.services}>
      <FleetList
        kind="Service"
        noun="services"
        search={search}
        onSearch={(next) => void navigate({ to: "/services", search: next })}
        columns={serviceColumns}
        isOld={isOldRow}
        empty={
          <Empty icon="service" title={text.noServices}>
            <p>{text.noServicesBody}</p>
            <Command>leat apply -f services.yaml</Command>
          </Empty>
        }
      />
    </ListPage>
  );
}
