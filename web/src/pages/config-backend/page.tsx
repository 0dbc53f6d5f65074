// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi } from "@tanstack/react-router";
import { Actions, useAction } from "../../fleet/action.tsx";
import { BackendState, kindOf, lookOf } from "../../fleet/backends.tsx";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { useRights } from "../../fleet/rights.ts";
import type { ConfigBackend } from "../../gen/leat/fleet/v1/config_backend_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, useLive } from "../../hub/live.ts";
import { rowSource } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { ExternalLink } from "../../parts/link.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { condition } from "../../text/condition.ts";
import { text } from "../../text/en.ts";
import { govern } from "../../text/govern.ts";
import styles from "./page.module.css";

const route = getRouteApi("/configuration/backends/$");
const words = govern.configuration;
/** So many paths or projects are shown. */
const mostShown = 64;

/** ConfigBackendPage is one back end: whether the hub can read it, and who may refer to it. It shows no credential. */
export function ConfigBackendPage() {
  const hub = useHub();
  const { _splat: name = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `config backend ${name}`,
    () => rowSource(hub, "ConfigBackend", name),
    hub.surroundings,
  );
  useTitle(name);
  const command = `leat get configbackend ${shellQuote(name)} -o yaml`;
  if (failure && (!value || link === "stopped")) {
    return <ErrorState failure={failure} onRetry={store.retry} command={command} />;
  }
  if (link === "loading") return <Skeleton lines={8} />;
  const object = value?.document?.object;
  if (object?.case !== "configBackend") {
    return (
      <ErrorState
        failure={{ kind: "missing", reason: "", message: "", metadata: {} }}
        command="leat get configbackends"
      />
    );
  }
  return <Shown name={name} backend={object.value} link={link} command={command} />;
}

function Shown({
  name,
  backend,
  link,
  command,
}: {
  name: string;
  backend: ConfigBackend;
  link: LinkState;
  command: string;
}) {
  const { spec, status } = backend;
  const { problem } = status ?? {};
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/configuration", title: text.configuration }}
        name={name}
        phase=""
        state={{ show: <BackendState backend={backend} />, tone: lookOf(backend).tone }}
        since={ms(problem?.since) ?? ms(status?.readTime)}
        link={link}
        problem={problem && { reason: reasonName(problem.reason), message: problem.message }}
        facts={<Badge>{kindOf(backend)}</Badge>}
        actions={<Refresh name={name} />}
        command={command}
      />
      {spec?.description && <p>{spec.description}</p>}
      <div className={styles.cards}>
        <Where backend={backend} />
        <Access backend={backend} />
      </div>
    </Page>
  );
}

function Refresh({ name }: { name: string }) {
  const hub = useHub();
  const { run, running, failure } = useAction();
  const refused = useRights({ kind: "ConfigBackend", resource: "configbackends", ref: name, name, project: "" }, [
    "refresh",
  ]);
  return (
    <Actions label={text.actions} {...(failure && { failure })}>
      <Button
        kind="primary"
        busy={running === "refresh"}
        refused={refused("refresh")}
        title={`leat config refresh ${shellQuote(name)}`}
        onClick={() =>
          void run("refresh", async () => {
            const { entries } = await hub.call(FleetService).refreshConfigBackend({ name });
            return entries > 0 ? words.refreshed(entries) : words.refreshedNone;
          })
        }
      >
        {running === "refresh" ? words.refreshing : words.refreshNow}
      </Button>
    </Actions>
  );
}

type Place = { url?: string; mount?: string; namespace?: string; root?: string; region?: string; project?: string };

/** Returns where a back end is. What proves the hub's identity there is not among it. */
function placeOf({ spec }: ConfigBackend): Place {
  const kind = spec?.kind;
  switch (kind?.case) {
    case "vault":
      return { url: kind.value.url, mount: kind.value.mount || "secret", namespace: kind.value.namespace };
    case "files":
      return { root: kind.value.root };
    case "kubernetes":
    case "http":
    case "azure":
      return { url: kind.value.url };
    case "aws":
      return { region: kind.value.region };
    case "gcp":
      return { project: kind.value.project };
    default:
      return {};
  }
}

function Where({ backend }: { backend: ConfigBackend }) {
  const { spec, status } = backend;
  const place = placeOf(backend);
  const refresh = spec?.refresh ? Number(spec.refresh.seconds) : 300;
  return (
    <Card title={words.where}>
      <Facts
        facts={[
          place.url && [words.url, <ExternalLink key="url" href={place.url} />],
          place.mount && [words.mount, <code key="mount">{place.mount}</code>],
          place.namespace && [words.namespace, <code key="namespace">{place.namespace}</code>],
          place.root && [words.root, <code key="root">{place.root}</code>],
          place.region && [words.region, place.region],
          place.project && [words.account, <code key="project">{place.project}</code>],
          [words.refresh, text.span(refresh)],
          [words.maxStale, spec?.maxStale ? text.span(Number(spec.maxStale.seconds)) : words.anyAge],
          [words.column.entries, text.number(status?.entries ?? 0)],
          [words.column.failing, text.number(status?.failing ?? 0)],
          [words.column.read, status?.readTime ? <Age key="read" at={ms(status.readTime)} /> : condition.never],
        ].map((fact) => (fact ? (fact as [string, string]) : undefined))}
      />
    </Card>
  );
}

function Access({ backend: { spec } }: { backend: ConfigBackend }) {
  const projects = spec?.projects ?? [];
  const paths = spec?.allowedPaths ?? [];
  return (
    <Card title={words.access}>
      <Facts
        facts={[
          [
            words.projects,
            projects.includes("*") ? words.allProjects : projects.length === 0 ? words.noneOpen : text.list(projects),
          ],
          [
            words.paths,
            paths.length === 0
              ? words.noneOpen
              : paths.slice(0, mostShown).map((path) => (
                  <div key={path}>
                    <code>{path}</code>
                  </div>
                )),
          ],
        ]}
      />
      {spec?.public && <p className={styles.words}>{words.public}</p>}
    </Card>
  );
}
