// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { isOldRow, ms, servicesOfClusterColumns } from "../../fleet/columns.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { FleetList } from "../../fleet/list.tsx";
import { Card, Facts, ListSection, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { objectSource } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { LogLine } from "../../parts/line.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { condition } from "../../text/condition.ts";
import { text } from "../../text/en.ts";

import { metrics } from "../../text/metrics.ts";

import { reach } from "../../text/reach.ts";

// What asks the cluster is loaded by those who look at it.
const Nodes = lazy(() => import("./nodes.tsx").then((module) => ({ default: module.Nodes })));

const route = getRouteApi("/clusters/$");

/** ClusterPage is one cluster: whether its agent is there, what it reports, and the services in it. */
export function ClusterPage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate();
  const { value, failure, link, store } = useLive(
    `cluster ${ref}`,
    () => objectSource(hub.call(FleetService), "Cluster", ref),
    hub.surroundings,
  );
  useTitle(ref);
  const command = `leat get cluster ${shellQuote(ref)}`;
  if (failure && (!value || link === "stopped"))
    return <ErrorState failure={failure} onRetry={store.retry} command={command} />;
  if (link === "loading") return <Skeleton lines={8} />;
  const cluster = value?.object.case === "cluster" ? value.object.value : undefined;
  if (!cluster) {
    return (
      <ErrorState failure={{ kind: "missing", reason: "", message: "", metadata: {} }} command="leat get clusters" />
    );
  }
  const { status, metadata, spec } = cluster;
  const report = status?.report;
  const nodes = report?.overview?.nodes;
  const phase = status?.connected ? "CONNECTED" : status?.enrolled ? "DISCONNECTED" : "NOT_JOINED";
  const labels = Object.entries(metadata?.labels ?? {});
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/clusters", title: text.clusters }}
        name={ref}
        phase={phase}
        since={ms(status?.lastSeenAt)}
        link={link}
        problem={phase === "DISCONNECTED" ? { reason: "AGENT_OFFLINE", message: text.oldWord } : undefined}
        facts={labels.map(([key, value]) => (
          <Badge key={key} mono>
            {key}={value}
          </Badge>
        ))}
        command={command}
      />
      {status?.agentSkew && (
        <Notice
          tone="warn"
          icon="alert"
          title={<LogLine most={1000}>{text.sentence(status.agentSkew.message)}</LogLine>}
        >
          <p>{text.advice.AGENT_VERSION_SKEW}</p>
          <p>
            <code>AGENT_VERSION_SKEW</code>
          </p>
        </Notice>
      )}
      {spec?.description && <p>{spec.description}</p>}
      {phase === "NOT_JOINED" ? (
        <Empty icon="dashed" title={text.phase.NOT_JOINED}>
          <p>{text.notJoinedBody}</p>
          <Command>{`leat cluster token ${shellQuote(ref)} -o kubernetes`}</Command>
        </Empty>
      ) : (
        <Card
          title={text.conditions}
          note={
            <Link to="/clusters/$cluster/resources" params={{ cluster: ref }}>
              {reach.allResources}
            </Link>
          }
        >
          <Facts
            facts={[
              [condition.services, condition.objectsOf(status?.servicesHealthy ?? 0, status?.services ?? 0)],
              report && [condition.agent, condition.agentOf(report.agentVersion, status?.agentSkew)],
              report && [condition.kubernetes, report.kubernetesVersion],
              nodes && [condition.nodes, condition.nodesOf(nodes.ready, nodes.count)],
              [condition.lastSeen, <Age key="age" at={ms(status?.lastSeenAt)} />],
              status?.removalsHeldSince && [
                condition.removals,
                <span key="held">
                  {condition.removalsHeld} <Age at={ms(status.removalsHeldSince)} />
                </span>,
              ],
            ]}
          />
        </Card>
      )}
      {phase !== "NOT_JOINED" && (
        <div>
          <Button
            icon="half"
            aria-expanded={search.nodes === true}
            onClick={() =>
              void navigate({
                to: "/clusters/$",
                params: { _splat: ref },
                search: ({ nodes, ...others }) => ({ ...others, ...(!nodes && { nodes: true }) }),
              })
            }
          >
            {search.nodes ? metrics.hideNodes : metrics.showNodes}
          </Button>
        </div>
      )}
      {search.nodes && (
        <Suspense fallback={<Skeleton lines={6} />}>
          <Nodes cluster={ref} />
        </Suspense>
      )}
      <ListSection title={text.services}>
        <FleetList
          kind="Service"
          noun="services"
          cluster={ref}
          search={search}
          onSearch={(next) =>
            void navigate({
              to: "/clusters/$",
              params: { _splat: ref },
              search: { ...next, ...(search.nodes && { nodes: true }) },
            })
          }
          columns={servicesOfClusterColumns}
          isOld={isOldRow}
          empty={
            <Empty icon="service" title={text.noServices}>
              <p>{text.noServicesBody}</p>
            </Empty>
          }
        />
      </ListSection>
    </Page>
  );
}
