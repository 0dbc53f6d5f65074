// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useId, useState } from "react";
import { ms } from "../../fleet/columns.tsx";
import { CommitLink } from "../../fleet/commit.tsx";
import { Card } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import type { PlanBundle } from "../../gen/leat/distributor/v1/plan_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import type { Service } from "../../gen/leat/fleet/v1/resources_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { Age } from "../../parts/age.tsx";
import { Button } from "../../parts/button.tsx";
import { TextField } from "../../parts/field.tsx";
import { ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { act } from "../../text/act.ts";
import { text } from "../../text/en.ts";
import { useServiceRights } from "./actions.tsx";
import styles from "./preview.module.css";
import { parseRef } from "./ref.ts";

const words = act.preview;
const verbs = ["preview"];
const longestRef = 256;

/** Returns the command that prints the same difference. */
export const diffCommand = (name: string, ref: string | undefined, repository: string | undefined): string =>
  [
    `leat diff service/${shellQuote(name)}`,
    ref !== undefined && `--ref ${shellQuote(ref)}`,
    ref !== undefined && repository !== undefined && `--repository ${shellQuote(repository)}`,
  ]
    .filter(Boolean)
    .join(" ");

/** Asked is the ref that the address names, and how often the person has asked for it. */
export interface Asked {
  ref: string | undefined;
  repository: string | undefined;
  turn: number;
}

export interface PreviewProps {
  name: string;
  service: Service;
  asked: Asked;
  /** Returns what is shown of the bundles of the ref; undefined: of what the service follows. */
  children: (bundles: readonly PlanBundle[] | undefined) => ReactNode;
}

/** Preview asks for a ref of a service's repository, and resolves it. Nothing of it is applied. */
export function Preview({ name, service, asked, children }: PreviewProps) {
  const refused = useServiceRights(name, service, verbs)("preview");
  const { ref, repository, turn } = asked;
  const repositories = [...new Set((service.spec?.sources ?? []).map((source) => source.repository))];
  return (
    <div className={styles.preview}>
      <Card title={words.title}>
        <RefForm key={JSON.stringify([ref, repository])} repositories={repositories} asked={asked} refused={refused} />
      </Card>
      {ref === undefined ? (
        children(undefined)
      ) : refused === text.rightsLoading ? (
        <Skeleton lines={6} />
      ) : refused !== undefined ? (
        <Notice tone="idle" icon="lock" title={refused} />
      ) : (
        <Resolved
          name={name}
          of={ref}
          // Only a repository that the service has is asked for.
          repository={repositories.find((each) => each === repository)}
          turn={turn}
        >
          {children}
        </Resolved>
      )}
    </div>
  );
}

function RefForm({
  repositories,
  asked: { ref = "", repository },
  refused,
}: {
  repositories: readonly string[];
  asked: Asked;
  refused: string | undefined;
}) {
  const id = useId();
  const navigate = useNavigate({ from: "/services/$" });
  const [typed, setTyped] = useState(ref);
  const [chosen, setChosen] = useState(repository ?? repositories[0] ?? "");
  const isSeveral = repositories.length > 1;
  const go = (to: string) =>
    void navigate({
      to: ".",
      search: { tab: "diff", ...(to !== "" && { ref: to, ...(isSeveral && { repository: chosen }) }) },
    });
  return (
    <form
      className={styles.form}
      onSubmit={(event) => {
        event.preventDefault();
        if (refused === undefined && typed.trim() !== "") go(typed.trim());
      }}
    >
      <div className={styles.ref}>
        <TextField label={words.ref} help={words.refHelp} value={typed} most={longestRef} onChange={setTyped} />
      </div>
      {isSeveral && (
        <div className={styles.repository}>
          <label htmlFor={id}>{words.repository}</label>
          <select id={id} value={chosen} onChange={(event) => setChosen(event.target.value)}>
            {repositories.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </div>
      )}
      <div className={styles.buttons}>
        <Button kind="primary" type="submit" refused={refused}>
          {words.show}
        </Button>
        {ref !== "" && <Button onClick={() => go("")}>{words.back}</Button>}
      </div>
    </form>
  );
}

/** Resolved is the commit of each source at the ref. The hub fetches it, and lets the cluster's agent download it. */
function Resolved({
  name,
  of,
  repository,
  turn,
  children,
}: {
  name: string;
  of: string;
  repository: string | undefined;
  turn: number;
  children: PreviewProps["children"];
}) {
  const hub = useHub();
  const { value, failure, store } = useLive(
    JSON.stringify(["preview", name, of, repository, turn]),
    () => ({
      load: async (signal) => {
        const asked = { name, ref: parseRef(of), repository: repository ?? "" };
        const { service, expireTime } = await hub.call(FleetService).previewService(asked, { signal });
        // An agent takes no bundles for those of the plan, and would compare with the present content.
        if (!service || service.bundles.length === 0) throw new ConnectError(words.nothing, Code.FailedPrecondition);
        return { bundles: service.bundles, expireTime };
      },
    }),
    hub.surroundings,
    true,
  );
  if (!value) {
    return failure ? (
      <ErrorState failure={failure} onRetry={store.retry} command={diffCommand(name, of, repository)} />
    ) : (
      <Skeleton lines={6} label={words.resolving} />
    );
  }
  return (
    <>
      <div className={styles.resolved}>
        <p>{words.at(of)}</p>
        <ul>
          {value.bundles.map((bundle, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the sources of a service have no other name
            <li key={index}>
              {bundle.repository} <span className={styles.quiet}>{bundle.path}</span>{" "}
              <CommitLink repository={bundle.repository} commit={bundle.commit} version={bundle.version} />
            </li>
          ))}
        </ul>
        {value.expireTime && (
          <p className={styles.quiet}>
            {words.until} <Age at={ms(value.expireTime)} />
          </p>
        )}
      </div>
      {children(value.bundles)}
    </>
  );
}
