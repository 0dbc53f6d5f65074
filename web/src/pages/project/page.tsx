// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ObjectHead } from "../../fleet/head.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { fullness, inWords, partOf, QuotaBar, usesOf } from "../../fleet/quota.tsx";
import { refIn, shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { LabelOperator, type LabelSelector } from "../../gen/leat/fleet/v1/people_pb";
import type { Project, ProjectLimits, Selection } from "../../gen/leat/fleet/v1/project_pb";
import type { AllowList } from "../../gen/leat/type/v1/sync_pb";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, polled, useLive } from "../../hub/live.ts";
import { ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { govern } from "../../text/govern.ts";
import styles from "./page.module.css";

const route = getRouteApi("/projects/$");
const words = govern.project;

/** A project's counts change with what others make, which no stream of projects tells. */
const every = 15_000;
/** So many patterns or names of one list are shown. */
const mostShown = 50;

/** ProjectPage is one project: what it has of its quotas, what its services may use, and what others may. */
export function ProjectPage() {
  const hub = useHub();
  const { _splat: name = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `project ${name}`,
    () =>
      polled(
        async (signal) => (await hub.call(FleetService).get({ kind: "Project", name }, { signal })).document,
        every,
        hub.surroundings,
      ),
    hub.surroundings,
  );
  useTitle(name);
  const command = `leat get project ${shellQuote(name)} -o yaml`;
  if (failure && (!value || link === "stopped")) {
    return <ErrorState failure={failure} onRetry={store.retry} command={command} />;
  }
  if (link === "loading") return <Skeleton lines={8} />;
  if (value?.object.case !== "project") {
    return (
      <ErrorState failure={{ kind: "missing", reason: "", message: "", metadata: {} }} command="leat get projects" />
    );
  }
  return <Shown name={name} project={value.object.value} link={link} command={command} />;
}

function Shown({ name, project, link, command }: { name: string; project: Project; link: LinkState; command: string }) {
  const { spec } = project;
  const full = usesOf(project).filter((use) => partOf(use) >= 1);
  const sets = spec?.configSets ?? [];
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/projects", title: text.projects }}
        name={name}
        phase=""
        since={undefined}
        link={link}
        command={command}
      />
      {full.length > 0 && (
        <Notice
          tone="bad"
          icon="alert"
          title={words.fullOf(full.map((use) => `${use.name.toLowerCase()} (${inWords(use)})`))}
        >
          <p>{words.isFullBody}</p>
        </Notice>
      )}
      {spec?.description && <p>{spec.description}</p>}
      <Quotas name={name} project={project} />
      <div className={styles.cards}>
        <Limits limits={spec?.limits} />
        <Card title={words.sets}>
          <div className={styles.words}>
            {sets.length === 0 ? (
              words.noSets
            ) : (
              <ol>
                {sets.slice(0, mostShown).map((set) => (
                  <li key={set}>
                    <Link to="/configuration/sets/$" params={{ _splat: refIn(name, set) }}>
                      {set}
                    </Link>
                  </li>
                ))}
              </ol>
            )}
          </div>
        </Card>
      </div>
      <Shares project={project} />
      <Largest name={name} project={project} />
    </Page>
  );
}

function Quotas({ name, project }: { name: string; project: Project }) {
  const { spec, status } = project;
  const uses = new Map(usesOf(project).map((use) => [use.name, use]));
  const show = (what: string, plain: ReactNode): ReactNode => {
    const use = uses.get(what);
    return use ? <QuotaBar key={what} use={use} /> : plain;
  };
  const filter = `project=${name}`;
  const perBundle = spec?.quotas?.bytesPerBundle;
  return (
    <Card
      title={words.quotas}
      note={fullness(project) === undefined && <span className={styles.quiet}>{words.noQuota}</span>}
    >
      <Facts
        facts={[
          [
            words.services,
            <Link key="services" to="/services" search={{ filter }}>
              {show(words.services, text.number(status?.services ?? 0))}
            </Link>,
          ],
          [
            words.clusters,
            <Link key="clusters" to="/clusters" search={{ filter }}>
              {text.number(status?.clusters ?? 0)}
            </Link>,
          ],
          [
            words.repositories,
            <Link key="repositories" to="/repositories" search={{ filter }}>
              {show(words.repositories, text.number(status?.repositories ?? 0))}
            </Link>,
          ],
          [
            words.bundles,
            show(
              words.bundles,
              `${text.size(Number(status?.bundleBytes ?? 0))}, ${words.bundlesOf(status?.bundles ?? 0)}`,
            ),
          ],
          perBundle !== undefined && [words.perBundle, words.atMost(Number(perBundle))],
        ]}
      />
    </Card>
  );
}

function Limits({ limits }: { limits: ProjectLimits | undefined }) {
  const lists: [string, AllowList | undefined][] = [
    ["repositories", limits?.repositories],
    ["clusters", limits?.clusters],
    ["namespaces", limits?.namespaces],
    ["clusterScopedKinds", limits?.clusterScopedKinds],
    ["serviceAccounts", limits?.serviceAccounts],
  ];
  return (
    <Card title={words.limits}>
      <Facts facts={lists.map(([id, list]) => [words.limitNames[id] ?? id, <Allowed key={id} list={list} />])} />
    </Card>
  );
}

/** Allowed is a list of patterns. One that is left out allows everything, and an empty one nothing. */
function Allowed({ list }: { list: AllowList | undefined }) {
  if (!list) return words.anything;
  if (list.allow.length === 0) return <strong>{words.nothing}</strong>;
  return <Codes values={list.allow} />;
}

function Codes({ values }: { values: readonly string[] }) {
  return (
    <>
      {values.slice(0, mostShown).map((value) => (
        <div key={value}>
          <code>{value}</code>
        </div>
      ))}
      {values.length > mostShown && <div>{govern.configuration.more(values.length - mostShown)}</div>}
    </>
  );
}

function Shares({ project: { spec } }: { project: Project }) {
  const shares = spec?.shares ?? [];
  return (
    <Card title={words.shares}>
      {shares.length === 0 ? (
        <p className={styles.words}>{words.noShares}</p>
      ) : (
        <Table
          columns={[...words.sharesColumns]}
          rows={shares.map((share, index) => ({
            key: String(index),
            cells: [
              <Selected key="projects" selection={share.projects} />,
              <Selected key="clusters" selection={share.clusters} />,
              <Selected key="repositories" selection={share.repositories} />,
              <Selected key="sets" selection={share.configSets} />,
              share.clusterAnnotations.length > 0 ? (
                <Codes key="keys" values={share.clusterAnnotations} />
              ) : (
                words.nothing
              ),
            ],
          }))}
        />
      )}
    </Card>
  );
}

/** Selected is what a share selects, by names and by labels together. */
function Selected({ selection }: { selection: Selection | undefined }) {
  if (selection?.all) return words.all;
  const labels = labelsOf(selection?.labels);
  const names = selection?.names ?? [];
  if (names.length === 0 && labels === "") return <span className={styles.quiet}>{words.nothing}</span>;
  return (
    <>
      {names.length > 0 && <Codes values={names} />}
      {labels !== "" && <code>{words.labelled(labels)}</code>}
    </>
  );
}

/** Returns a selector of labels as kubectl writes it. */
function labelsOf(selector: LabelSelector | undefined): string {
  const equal = Object.entries(selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const others = (selector?.matchExpressions ?? []).map(({ key, operator, values }) => {
    if (operator === LabelOperator.EXISTS) return key;
    if (operator === LabelOperator.DOES_NOT_EXIST) return `!${key}`;
    return `${key} ${operator === LabelOperator.IN ? "in" : "notin"} (${values.join(",")})`;
  });
  return [...equal, ...others].slice(0, mostShown).join(", ");
}

function Largest({ name, project: { status } }: { name: string; project: Project }) {
  const bundles = status?.largestBundles ?? [];
  if (bundles.length === 0) return null;
  return (
    <Card title={words.largest}>
      <Table
        columns={[...words.largestColumns]}
        rows={bundles.map(({ repository, path, bytes }) => ({
          key: `${repository} ${path}`,
          cells: [
            <Link key="repository" to="/repositories/$" params={{ _splat: refIn(name, repository) }}>
              {repository}
            </Link>,
            <code key="path">{path || "."}</code>,
            text.size(Number(bytes)),
          ],
        }))}
      />
    </Card>
  );
}
