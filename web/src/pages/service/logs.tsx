// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useNavigate, useSearch } from "@tanstack/react-router";
import { LogView } from "../../fleet/logs.tsx";
import { refIn } from "../../fleet/refs.ts";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { ofService } from "../../kube/logs.ts";
import { placeOf } from "../../kube/names.ts";
import type { ServiceSearch } from "../../shell/router.tsx";
import { understand } from "../../text/understand.ts";

/** Logs is what all pods of a service write. */
export function Logs({ name, service }: { name: string; service: Service }) {
  const search = useSearch({ from: "/services/$" });
  const navigate = useNavigate({ from: "/services/$" });
  const place = placeOf(service);
  return (
    <LogView
      of={name}
      title={understand.logs.title}
      find={ofService(place)}
      path={place.cluster}
      cluster={refIn(service.metadata?.project ?? "", service.spec?.cluster ?? "")}
      namespace={place.namespace}
      search={search}
      onChange={(next) =>
        void navigate({
          to: ".",
          search: (now) =>
            Object.fromEntries(
              // That the explanation is hidden is a choice, too.
              Object.entries({ ...now, ...next }).filter(([key, each]) => (key === "why" ? each !== undefined : each)),
            ) as ServiceSearch,
          replace: true,
        })
      }
    />
  );
}
