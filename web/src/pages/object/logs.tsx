// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { LogView } from "../../fleet/logs.tsx";
import { ofPod } from "../../kube/logs.ts";
import type { Place } from "../../kube/object.ts";
import type { KubeObjectSearch } from "../../shell/router.tsx";
import { understand } from "../../text/understand.ts";

const route = getRouteApi("/clusters/$cluster/resources/$group/$version/$plural/$namespace/$object");

/** PodLogs is what the containers of a pod write. */
export function PodLogs({ place: { cluster, path, address } }: { place: Place }) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: route.id });
  return (
    <LogView
      of={JSON.stringify([path, address.namespace, address.name])}
      title={understand.logs.podTitle}
      find={ofPod(path, address.namespace, address.name)}
      path={path}
      cluster={cluster}
      namespace={address.namespace}
      pod={address.name}
      search={search}
      onChange={(next) =>
        void navigate({
          to: ".",
          search: (now) =>
            Object.fromEntries(Object.entries({ ...now, ...next }).filter(([, each]) => each)) as KubeObjectSearch,
          replace: true,
        })
      }
    />
  );
}
