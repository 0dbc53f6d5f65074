// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Actions, Unsuccessful, useAction } from "../../fleet/action.tsx";
import { reasonName } from "../../fleet/columns.tsx";
import { type Refused, useRights } from "../../fleet/rights.ts";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import type { Repository } from "../../gen/leat/fleet/v1/resources_pb";
import { type Hub, useHub } from "../../hub/hub.ts";
import { Button } from "../../parts/button.tsx";
import { text } from "../../text/en.ts";
import { repositoryText } from "../../text/repository.ts";

const verbs = ["sync", "update"] as const;

/** Returns what the person may not do with a repository. */
export const useRepositoryRights = (ref: string, { metadata }: Repository): Refused =>
  useRights(
    {
      kind: "Repository",
      resource: "repositories",
      ref,
      name: metadata?.name ?? "",
      project: metadata?.project ?? "",
    },
    verbs,
  );

async function fetchNow(hub: Hub, name: string): Promise<string> {
  const { problem } = await hub.call(FleetService).syncRepository({ name });
  if (problem)
    throw new Unsuccessful(reasonName(problem.reason), repositoryText.repository.notFetched(problem.message));
  return repositoryText.repository.fetched(name);
}

/** RepositoryActions are what a person can do with a repository. */
export function RepositoryActions({
  name,
  isSuspended,
  refused,
  onFetched,
}: {
  name: string;
  isSuspended: boolean;
  refused: Refused;
  /** Is called when the state may have changed. */
  onFetched: () => void;
}) {
  const hub = useHub();
  const { run, running, failure } = useAction();
  return (
    <Actions label={text.actions} {...(failure && { failure })}>
      <Button
        kind="primary"
        busy={running === "fetch"}
        refused={refused("sync") ?? (isSuspended ? repositoryText.repository.suspended : undefined)}
        onClick={() =>
          void run("fetch", async () => {
            try {
              return await fetchNow(hub, name);
            } finally {
              onFetched();
            }
          })
        }
      >
        {repositoryText.repository.fetchNow}
      </Button>
    </Actions>
  );
}
