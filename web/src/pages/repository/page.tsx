// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { durationMs } from "@bufbuild/protobuf/wkt";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { isOldRow, ms, reasonName, serviceColumns } from "../../fleet/columns.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { FleetList } from "../../fleet/list.tsx";
import { Card, Facts, ListSection, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import type { Repository } from "../../gen/leat/fleet/v1/resources_pb";
import { RepositoryPhase, type RepositoryState, RepositoryType } from "../../gen/leat/gitcache/v1/repository_pb";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, useLive } from "../../hub/live.ts";
import { objectSource } from "../../hub/object.ts";
import { pathOf } from "../../kube/names.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { ExternalLink } from "../../parts/link.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { condition } from "../../text/condition.ts";
import { text } from "../../text/en.ts";
import { repositoryText } from "../../text/repository.ts";
import { RepositoryActions, useRepositoryRights } from "./actions.tsx";
import styles from "./page.module.css";
import { Webhook } from "./webhook.tsx";

const route = getRouteApi("/repositories/$");

/** RepositoryPage is one repository: whether its mirror is fresh, how a push reaches it, and who uses it. */
export function RepositoryPage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `repository ${ref}`,
    () => objectSource(hub.call(FleetService), "Repository", ref),
    hub.surroundings,
  );
  useTitle(ref);
  if (failure && (!value || link === "stopped"))
    return (
      <ErrorState failure={failure} onRetry={store.retry} command={`leat get repository ${shellQuote(ref)} -o yaml`} />
    );
  if (link === "loading") return <Skeleton lines={8} />;
  const repository = value?.object.case === "repository" ? value.object.value : undefined;
  if (!repository) {
    return (
      <ErrorState
        failure={{ kind: "missing", reason: "", message: "", metadata: {} }}
        command="leat get repositories"
      />
    );
  }
  return (
    <Shown
      name={ref}
      repository={repository}
      link={link}
      // A fetch that finds nothing new is no change that the stream would tell of.
      onFetched={() => store.replace(objectSource(hub.call(FleetService), "Repository", ref))}
    />
  );
}

/** How many refs are shown that are held back. The hub names up to a thousand. */
const mostHeld = 50;
const mostNotices = 20;

function Shown({
  name,
  repository,
  link,
  onFetched,
}: {
  name: string;
  repository: Repository;
  link: LinkState;
  onFetched: () => void;
}) {
  const { spec, status, metadata } = repository;
  const { webhook, ...search } = route.useSearch();
  const navigate = useNavigate();
  const phase = RepositoryPhase[status?.phase ?? 0] ?? "UNSPECIFIED";
  const problem = status?.problem;
  const held = status?.heldRefs ?? [];
  const quoted = shellQuote(name);
  const refused = useRepositoryRights(name, repository);
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/repositories", title: text.repositories }}
        name={name}
        phase={phase === "UNSPECIFIED" ? "UNKNOWN" : phase}
        since={ms(problem?.since) ?? ms(status?.freshAt)}
        link={link}
        problem={problem && { reason: reasonName(problem.reason), message: problem.message }}
        facts={
          <>
            <Badge>{repositoryText.repositoryType[spec?.type ?? 0] ?? text.phase.UNKNOWN}</Badge>
            <span className={styles.url}>
              <ExternalLink href={spec?.url ?? ""} />
            </span>
          </>
        }
        actions={
          <RepositoryActions
            name={name}
            isSuspended={spec?.suspended === true}
            refused={refused}
            onFetched={onFetched}
          />
        }
        command={`leat get repository ${quoted} -o yaml`}
      />
      {status?.notices.slice(0, mostNotices).map((notice) => (
        <Notice key={notice} tone="warn" icon="info" title={notice} />
      ))}
      <Card title={repositoryText.mirror}>
        <Facts facts={mirrorFacts(repository, status)} />
      </Card>
      {held.length > 0 && (
        <Card title={repositoryText.heldRefs}>
          <p className={styles.lead}>{repositoryText.heldRefsBody}</p>
          <ul className={styles.refs}>
            {held.slice(0, mostHeld).map((each) => (
              <li key={each}>
                <code>{each}</code>
              </li>
            ))}
            {held.length > mostHeld && <li>{repositoryText.heldRefsMore(held.length - mostHeld)}</li>}
          </ul>
        </Card>
      )}
      <Webhook
        name={name}
        path={pathOf(metadata?.project ?? "", metadata?.name ?? "")}
        type={spec?.type ?? RepositoryType.UNSPECIFIED}
        url={spec?.url ?? ""}
        refused={refused("update")}
        host={webhook}
        onHost={(next) =>
          void navigate({
            to: "/repositories/$",
            params: { _splat: name },
            search: next ? { ...search, webhook: next } : search,
            replace: true,
          })
        }
      />
      <ListSection title={repositoryText.usedBy}>
        <FleetList
          kind="Service"
          noun="services"
          scope={`repository=${name}`}
          search={search}
          onSearch={(next) =>
            void navigate({
              to: "/repositories/$",
              params: { _splat: name },
              search: { ...next, ...(webhook && { webhook }) },
            })
          }
          columns={serviceColumns}
          isOld={isOldRow}
          empty={
            <Empty icon="service" title={repositoryText.usedByNone}>
              <p>{repositoryText.usedByNoneBody}</p>
            </Empty>
          }
        />
      </ListSection>
    </Page>
  );
}

const defaultPoll = 120_000;

function mirrorFacts({ spec }: Repository, status: RepositoryState | undefined) {
  const never = condition.never;
  return [
    [condition.fresh, status?.freshAt ? <Age key="fresh" at={ms(status.freshAt)} /> : never],
    [condition.moved, status?.changedAt ? <Age key="moved" at={ms(status.changedAt)} /> : never],
    [condition.nextPoll, status?.nextPollAt ? <Age key="poll" at={ms(status.nextPollAt)} /> : condition.nextPollNone],
    [condition.pollInterval, text.seconds((spec?.pollInterval ? durationMs(spec.pollInterval) : defaultPoll) / 1000)],
    status !== undefined && status.failures > 0 && [condition.failures, text.number(status.failures)],
    status !== undefined &&
      status.defaultBranch !== "" && [condition.defaultBranch, status.defaultBranch.replace(/^refs\/heads\//, "")],
    status && [condition.refs, text.number(status.refCount)],
    status && [condition.size, text.size(Number(status.diskBytes))],
  ] as const satisfies readonly (readonly [string, React.ReactNode] | false | "" | undefined)[];
}
