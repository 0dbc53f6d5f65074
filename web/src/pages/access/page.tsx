// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { ms } from "../../fleet/columns.tsx";
import { type Field, SearchForm } from "../../fleet/form.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import type { AccessReason, ReviewAccessResponse } from "../../gen/leat/fleet/v1/people_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { permit } from "../../hub/permit.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { people } from "../../text/people.ts";
import { attributesOf } from "./attributes.ts";
import { GiveAccess } from "./give.tsx";
import styles from "./page.module.css";
import { RequestAccess, Requests } from "./requests.tsx";

const route = getRouteApi("/access");
type Search = ReturnType<typeof route.useSearch>;

const fields: readonly Field<"cluster" | "verb" | "resource" | "namespace" | "user">[] = [
  { name: "cluster", label: people.access.cluster },
  { name: "verb", label: people.access.verb },
  { name: "resource", label: people.access.resource },
  { name: "namespace", label: people.access.namespace },
  { name: "user", label: people.access.user },
];

/** AccessPage answers whether somebody may do something, by which bindings, and who else may. */
export function AccessPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  useTitle(text.access);
  const isHalf = (search.verb === undefined) !== (search.resource === undefined);
  return (
    <Page>
      <div className={styles.head}>
        <h1>{text.access}</h1>
        <div className={styles.beside}>
          <Command label={text.sameAs}>{commandOf(search)}</Command>
          <RequestAccess cluster={search.cluster ?? ""} namespace={search.namespace ?? ""} />
          <GiveAccess
            wanted={{
              user: search.user ?? "",
              cluster: search.cluster ?? "",
              namespace: search.namespace ?? "",
            }}
          />
        </div>
      </div>
      <Requests />
      <Card title={people.access.question}>
        <p className={styles.words}>{people.access.help}</p>
        <SearchForm
          label={people.access.question}
          fields={fields}
          value={search}
          verb={people.access.ask}
          onAsk={(next) => void navigate({ to: "/access", search: next })}
        />
      </Card>
      {isHalf ? (
        <Notice tone="warn" icon="alert" title={people.access.half} />
      ) : (
        <>
          <Review search={search} />
          {search.cluster && search.verb && search.resource && <Holders search={search} />}
        </>
      )}
    </Page>
  );
}

/** Review is the hub's answer about one person. */
function Review({ search }: { search: Search }) {
  const hub = useHub();
  const { cluster = "", user = "", verb, resource, namespace = "" } = search;
  const { value, failure, store } = useLive(
    `access ${JSON.stringify(search)}`,
    () => ({
      load: (signal) =>
        hub
          .call(FleetService)
          .reviewAccess(
            { cluster, user, ...(verb && resource && { attributes: attributesOf(verb, resource, namespace) }) },
            { signal },
          ),
    }),
    hub.surroundings,
  );
  return (
    <Card title={people.access.answer}>
      {/* It outlives each answer, so that a screen reader says the next one while the focus stays in the form. */}
      <div role="status" className={styles.answer}>
        {value && !failure && <Verdict answer={value} />}
      </div>
      {failure ? (
        <ErrorState failure={failure} onRetry={store.retry} command={commandOf(search)} />
      ) : value ? (
        <Reasons answer={value} isOne={verb !== undefined} />
      ) : (
        <Skeleton />
      )}
    </Card>
  );
}

function Verdict({ answer: { allowed, reason } }: { answer: ReviewAccessResponse }) {
  return (
    <Notice
      tone={allowed ? "ok" : "warn"}
      icon={allowed ? "check" : "lock"}
      title={allowed ? people.access.allowed : people.access.refused}
    >
      {reason !== "" && <p>{reason}</p>}
    </Notice>
  );
}

/** Reasons are what the hub decided by. */
function Reasons({ answer, isOne }: { answer: ReviewAccessResponse; isOne: boolean }) {
  const { reasons, user, groups, permissions } = answer;
  const verbs = new Map<string, string[]>();
  for (const { verb, resource } of permissions) verbs.set(resource, [...(verbs.get(resource) ?? []), verb]);
  return (
    <>
      {(user !== "" || groups.length > 0) && (
        <Facts
          facts={[
            user !== "" && [people.access.userInCluster, <code key="user">{user}</code>],
            groups.length > 0 && [people.access.groupsInCluster, <code key="groups">{groups.join(", ")}</code>],
          ]}
        />
      )}
      {reasons.length > 0 && (
        <Table
          columns={[...people.access.reasonColumns]}
          rows={reasons.map((each, index) => ({
            // A person can have the same binding by several subjects.
            key: `${index} ${each.binding}`,
            cells: [
              each.binding || people.access.administrators,
              <Badge key="role">{each.roleName}</Badge>,
              each.subjects.join(", "),
              rulesOf(each),
              each.expireTime ? <Age key="end" at={ms(each.expireTime)} /> : people.access.never,
            ],
          }))}
        />
      )}
      {!isOne && verbs.size > 0 && (
        <Table
          columns={[people.access.resource, people.access.verbs]}
          rows={[...verbs]
            .toSorted(([a], [b]) => (a < b ? -1 : 1))
            .map(([resource, verbs]) => ({
              key: resource,
              cells: [<code key="of">{resource}</code>, verbs.join(", ")],
            }))}
        />
      )}
    </>
  );
}

/** Returns what a binding is narrowed to, in words. */
function rulesOf({ rules }: AccessReason): string {
  return rules
    .map(({ verbs, resources, apiGroups, namespaces, nonResourcePaths }) =>
      people.access.rule(verbs, [...resources, ...nonResourcePaths], apiGroups, namespaces),
    )
    .join("; ");
}

/** Holders are all who may do the same. Only who may read the audit log may ask, so a refusal is no failure of the page. */
function Holders({ search }: { search: Search }) {
  const hub = useHub();
  const { cluster = "", verb = "", resource = "", namespace = "" } = search;
  const { value, failure, store } = useLive(
    `holders ${JSON.stringify([cluster, verb, resource, namespace])}`,
    () => ({
      load: async (signal) => {
        await permit(hub, { cluster: "", verb: "list", resource: "auditrecords" });
        const attributes = attributesOf(verb, resource, namespace);
        return hub.call(FleetService).listAccessHolders({ cluster, attributes }, { signal });
      },
    }),
    hub.surroundings,
  );
  const command = [
    `leat access who-can ${shellQuote(verb)} ${shellQuote(resource)} --cluster ${shellQuote(cluster)}`,
    namespace && `-n ${shellQuote(namespace)}`,
  ]
    .filter(Boolean)
    .join(" ");
  return (
    <Card title={people.access.whoCan} note={<Command>{command}</Command>}>
      {failure ? (
        failure.kind === "refused" ? (
          <p className={styles.words}>{people.access.whoCanRefused}</p>
        ) : (
          <ErrorState failure={failure} onRetry={store.retry} />
        )
      ) : !value ? (
        <Skeleton />
      ) : (
        <>
          {value.gaps.slice(0, mostGaps).map((gap) => (
            <div key={gap} className={styles.answer}>
              <Notice tone="warn" icon="info" title={gap} />
            </div>
          ))}
          {value.holders.length === 0 ? (
            <Empty icon="person" title={people.access.nobody} />
          ) : (
            <Table
              columns={[...people.access.holderColumns]}
              rows={value.holders.slice(0, mostHolders).map(({ person, subject, reason, until }, index) => ({
                key: `${index} ${subject}`,
                cells: [
                  person || people.access.everybodyIn(subject.replace(/^group:/, "")),
                  subject,
                  reason?.binding || people.access.administrators,
                  <Badge key="role">{reason?.roleName ?? ""}</Badge>,
                  until ? <Age key="until" at={ms(until)} /> : "",
                ],
              }))}
            />
          )}
          {value.holders.length > mostHolders && (
            <p className={styles.words}>{people.access.more(value.holders.length - mostHolders)}</p>
          )}
        </>
      )}
    </Card>
  );
}

const mostHolders = 300;
const mostGaps = 20;

function commandOf({ cluster, verb, resource, namespace, user }: Search): string {
  return [
    "leat access",
    cluster && shellQuote(cluster),
    cluster && verb && resource && `${shellQuote(verb)} ${shellQuote(resource)}`,
    namespace && `-n ${shellQuote(namespace)}`,
    user && `--as ${shellQuote(user)}`,
  ]
    .filter(Boolean)
    .join(" ");
}
