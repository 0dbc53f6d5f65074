// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useId, useState } from "react";
import { type Step, StepDialog } from "../../fleet/action.tsx";
import { ms } from "../../fleet/columns.tsx";
import { Card } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import {
  type AccessRequest,
  AccessRequestService,
  type AccessRequestSpec,
  AccessRequestState,
} from "../../gen/leat/fleet/v1/access_request_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { AccessRole } from "../../gen/leat/type/v1/access_pb";
import { type Hub, useHub } from "../../hub/hub.ts";
import { type Source, useLive } from "../../hub/live.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { TextField } from "../../parts/field.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { useSignIn } from "../../shell/shell.tsx";
import { people } from "../../text/people.ts";
import { namesOf } from "./binding.ts";
import styles from "./page.module.css";
import { newestFirst, scopeOf } from "./requested.ts";

const words = people.requests;
const roles = ["viewer", "operator", "editor", "admin"] as const;
const roleOf = {
  viewer: AccessRole.VIEWER,
  operator: AccessRole.OPERATOR,
  editor: AccessRole.EDITOR,
  admin: AccessRole.ADMIN,
};
const hours = [1, 8, 24, 168] as const;
const most = 256; // names of a request, as the hub bounds them
const pageSize = 500;

/** RequestAccess asks for a role in clusters for some time. Every person may ask, so the button is for everybody. */
export function RequestAccess(wanted: { cluster: string; namespace: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>{words.button}</Button>
      {isOpen && <Ask {...wanted} onClose={() => setOpen(false)} />}
    </>
  );
}

function Ask({ cluster, namespace, onClose }: { cluster: string; namespace: string; onClose: () => void }) {
  const hub = useHub();
  const id = useId();
  const [clusters, setClusters] = useState(cluster);
  const [namespaces, setNamespaces] = useState(namespace);
  const [role, setRole] = useState<(typeof roles)[number]>("viewer");
  const [life, setLife] = useState<(typeof hours)[number]>(1);
  const of = { clusters: namesOf(clusters), namespaces: namesOf(namespaces) };
  const missing =
    of.clusters.length === 0
      ? words.needsClusters
      : Math.max(of.clusters.length, of.namespaces.length) > most
        ? people.give.tooMany(most)
        : undefined;
  const command = [
    `leat access request --role ${role}`,
    ...of.clusters.map((each) => `--cluster ${shellQuote(each)}`),
    ...of.namespaces.map((each) => `-n ${shellQuote(each)}`),
    `--for ${life}h`,
  ];
  return (
    <StepDialog
      onClose={onClose}
      step={{
        id: "request",
        title: words.title,
        verb: words.verb,
        refused: missing,
        needsReason: words.needsReason,
        command: command.join(" "),
        act: async (options, reason) => {
          const { accessRequest } = await hub.call(AccessRequestService).createAccessRequest(
            {
              spec: {
                role: roleOf[role],
                clusters: { names: of.clusters },
                rules: of.namespaces.length > 0 ? [{ namespaces: of.namespaces }] : [],
                duration: { seconds: BigInt(life * 3600) },
                reason,
              },
            },
            options,
          );
          return words.made(accessRequest?.metadata?.name ?? "");
        },
        body: (
          <>
            <p>{words.body}</p>
            <TextField
              label={words.clusters}
              help={words.clustersHelp}
              value={clusters}
              most={4096}
              onChange={setClusters}
            />
            <TextField
              label={words.namespaces}
              help={words.namespacesHelp}
              value={namespaces}
              most={4096}
              onChange={setNamespaces}
            />
            <div className={styles.choices}>
              <label htmlFor={`${id}-role`}>{people.give.role}</label>
              <select
                id={`${id}-role`}
                value={role}
                onChange={(event) => setRole(roles.find((each) => each === event.target.value) ?? "viewer")}
              >
                {roles.map((each) => (
                  <option key={each} value={each}>
                    {people.give.roles[each]}
                  </option>
                ))}
              </select>
              <label htmlFor={`${id}-life`}>{people.give.life}</label>
              <select
                id={`${id}-life`}
                value={life}
                onChange={(event) => setLife(hours.find((each) => String(each) === event.target.value) ?? 1)}
              >
                {hours.map((each) => (
                  <option key={each} value={each}>
                    {words.lives[each]}
                  </option>
                ))}
              </select>
            </div>
          </>
        ),
      }}
    />
  );
}

const nameOf = (request: AccessRequest) => request.metadata?.name ?? "";

/** Returns the source of the requests that the person sees, by name. */
function requestsSource({ call }: Hub): Source<ReadonlyMap<string, AccessRequest>> {
  const kind = "AccessRequest";
  const fleet = call(FleetService);
  return {
    async load(signal) {
      const { documents } = await fleet.list({ kind, page: { size: pageSize } }, { signal });
      const all = documents.flatMap(({ object }) => (object.case === "accessRequest" ? [object.value] : []));
      return new Map(all.map((request) => [nameOf(request), request]));
    },
    async *follow(from, signal) {
      // A stream begins with everything that there is, so what it does not send by then is gone.
      let all = new Map<string, AccessRequest>();
      let isSynced = false;
      for await (const { document, deleted, synced } of fleet.watch({ kind }, { signal })) {
        isSynced ||= synced;
        if (document?.object.case === "accessRequest") {
          const request = document.object.value;
          all = new Map(all);
          if (deleted) all.delete(nameOf(request));
          else all.set(nameOf(request), request);
        }
        yield isSynced ? all : from;
      }
    },
  };
}

/** Requests are those that the person made, or may decide about. */
export function Requests() {
  const hub = useHub();
  const signIn = useSignIn();
  const [step, setStep] = useState<Step>();
  const { value, failure, store } = useLive("accessrequests", () => requestsSource(hub), hub.surroundings);
  if (signIn.state !== "in") return null;
  const me = signIn.person.name;
  const all = value && [...value.values()].toSorted(newestFirst);
  return (
    <Card title={words.card}>
      <p className={styles.words}>{all?.length === 0 ? words.none : words.help}</p>
      {failure && !all ? (
        <ErrorState failure={failure} onRetry={store.retry} command="leat get accessrequests" />
      ) : !all ? (
        <Skeleton />
      ) : all.length === 0 ? null : (
        <Table columns={words.columns} rows={all.map((request) => rowOf(hub, request, me, setStep))} />
      )}
      <StepDialog step={step} onClose={() => setStep(undefined)} />
    </Card>
  );
}

function rowOf(hub: Hub, request: AccessRequest, me: string, setStep: (step: Step) => void) {
  const { spec } = request;
  const where = spec ? scopeOf(spec, words.scope) : "";
  return {
    key: nameOf(request),
    cells: [
      spec?.requester ?? "",
      <Badge key="role">{roleName(spec)}</Badge>,
      [where, ...rulesOf(spec)].join("; "),
      words.span(Number(spec?.duration?.seconds ?? 0n)),
      spec?.reason ?? "",
      <State key="state" request={request} />,
      <Decisions key="do" hub={hub} request={request} isOwn={spec?.requester === me} where={where} onStep={setStep} />,
    ],
  };
}

const roleName = (spec: AccessRequestSpec | undefined) =>
  spec?.roleName || (roles.find((each) => roleOf[each] === spec?.role) ?? "");

const rulesOf = (spec: AccessRequestSpec | undefined) =>
  (spec?.rules ?? []).map(({ verbs, resources, apiGroups, namespaces, nonResourcePaths }) =>
    words.only(people.access.rule(verbs, [...resources, ...nonResourcePaths], apiGroups, namespaces)),
  );

const tones = { 0: "idle", 1: "warn", 2: "ok", 3: "bad", 4: "idle", 5: "idle" } as const;

function State({ request: { status } }: { request: AccessRequest }) {
  const state = status?.state ?? AccessRequestState.UNSPECIFIED;
  const end = state === AccessRequestState.OPEN ? status?.lapseTime : status?.accessExpireTime;
  return (
    <>
      <Badge tone={tones[state]}>{words.states[state]}</Badge>
      {status?.decidedBy && ` ${words.by(status.decidedBy.replace(/^user:/, ""))}`}
      {status?.word && <q>{status.word}</q>}
      {end && (
        <>
          {" "}
          {state === AccessRequestState.OPEN ? words.lapses : words.ends} <Age at={ms(end)} />
        </>
      )}
    </>
  );
}

interface DecisionsProps {
  hub: Hub;
  request: AccessRequest;
  isOwn: boolean;
  where: string;
  onStep: (step: Step) => void;
}

/** Decisions are the buttons of an open request. Nobody decides about a request of their own. */
function Decisions({ hub, request, isOwn, where, onStep }: DecisionsProps) {
  if (request.status?.state !== AccessRequestState.OPEN) return null;
  const name = nameOf(request);
  const who = request.spec?.requester ?? "";
  if (isOwn) {
    const step: Step = {
      id: `withdraw ${name}`,
      title: words.withdraw.title,
      verb: words.withdraw.verb,
      body: <p>{words.withdraw.body}</p>,
      command: `leat access withdraw ${shellQuote(name)}`,
      act: async (options) => {
        await hub.call(AccessRequestService).withdrawAccessRequest({ name }, options);
        return words.withdraw.done;
      },
    };
    return <Button onClick={() => onStep(step)}>{step.verb}</Button>;
  }
  const span = words.span(Number(request.spec?.duration?.seconds ?? 0n));
  const approve: Step = {
    id: `approve ${name}`,
    title: words.approve.title(who),
    verb: words.approve.verb,
    body: (
      <>
        <p>{words.approve.body(who, roleName(request.spec), [where, ...rulesOf(request.spec)].join("; "), span)}</p>
        <p>{request.spec?.reason}</p>
      </>
    ),
    command: `leat access approve ${shellQuote(name)}`,
    act: async (options) => {
      const { accessRequest } = await hub.call(AccessRequestService).approveAccessRequest({ name }, options);
      return words.approve.done(accessRequest?.status?.binding ?? name);
    },
  };
  const deny: Step = {
    id: `deny ${name}`,
    title: words.deny.title(who),
    verb: words.deny.verb,
    body: <p>{words.deny.body(who)}</p>,
    command: `leat access deny ${shellQuote(name)}`,
    act: async (options, word) => {
      await hub.call(AccessRequestService).denyAccessRequest({ name, word }, options);
      return words.deny.done(who);
    },
  };
  return (
    <div className={styles.beside}>
      <Button onClick={() => onStep(approve)}>{approve.verb}</Button>
      <Button onClick={() => onStep(deny)}>{deny.verb}</Button>
    </div>
  );
}
