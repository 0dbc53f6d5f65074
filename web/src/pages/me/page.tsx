// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Step, StepDialog } from "../../fleet/action.tsx";
import { ms } from "../../fleet/columns.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import type { Token, TokenLimit } from "../../gen/leat/fleet/v1/people_pb";
import type { Session } from "../../gen/leat/fleet/v1/session_pb";
import { AccessRole } from "../../gen/leat/type/v1/access_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { Empty, ErrorState, Skeleton } from "../../parts/states.tsx";
import { useSignIn, useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { people } from "../../text/people.ts";
import styles from "./page.module.css";

/** The hub has no more on a page. Who has more tokens than that ends some. */
const pageSize = 200;

/** MePage is the person who is signed in: what signs them in, and where. */
export function MePage() {
  const signIn = useSignIn();
  const [step, setStep] = useState<Step>();
  const [round, setRound] = useState(0);
  useTitle(text.me);
  if (signIn.state !== "in") return null;
  const { name, groups } = signIn.person;
  const close = () => {
    setStep(undefined);
    setRound((n) => n + 1);
  };
  return (
    <Page>
      <h1>{name}</h1>
      <Card title={people.me.who}>
        <Facts
          facts={[
            [people.me.name, <code key="name">{name}</code>],
            [people.me.groups, groups.length > 0 ? groups.join(", ") : people.me.noGroups],
            [
              people.me.rights,
              <Link key="rights" to="/access">
                {people.me.toRights}
              </Link>,
            ],
          ]}
        />
      </Card>
      <Tokens key={`tokens ${round}`} person={name} onStep={setStep} />
      <Sessions key={`sessions ${round}`} person={name} onStep={setStep} />
      <StepDialog step={step} onClose={close} />
    </Page>
  );
}

function Tokens({ person, onStep }: { person: string; onStep: (step: Step) => void }) {
  const hub = useHub();
  const { value, failure, store } = useLive(
    `tokens ${person}`,
    () => ({
      load: (signal) => hub.call(FleetService).listTokens({ user: person, page: { size: pageSize } }, { signal }),
    }),
    hub.surroundings,
  );
  const command = `leat get tokens ${shellQuote(person)}`;
  const end = ({ id, label }: Token): Step => ({
    id,
    title: people.me.endToken(label),
    verb: people.me.end,
    isDangerous: true,
    body: <p>{people.me.endTokenBody}</p>,
    command: `leat delete token/${shellQuote(id)}`,
    act: async (options) => {
      await hub.call(FleetService).deleteToken({ id }, options);
      return people.me.ended;
    },
  });
  return (
    <Card title={people.me.tokens} note={<Command label={text.sameAs}>{command}</Command>}>
      <div className={styles.words}>
        <p>{people.me.tokensBody}</p>
        <Command label={people.me.newToken}>{`leat create token ${shellQuote(person)} --label laptop`}</Command>
      </div>
      {failure ? (
        <ErrorState failure={failure} onRetry={store.retry} />
      ) : !value ? (
        <Skeleton />
      ) : value.tokens.length === 0 ? (
        <Empty icon="key" title={people.me.noTokens} />
      ) : (
        <>
          <Table
            columns={[...people.me.tokenColumns]}
            rows={value.tokens.map((token) => ({
              key: token.id,
              cells: [
                <strong key="label">{token.label}</strong>,
                limitOf(token.limit),
                <Age key="made" at={ms(token.createTime)} />,
                token.lastUsedTime ? (
                  <span key="used" title={token.lastUsedAddress}>
                    <Age at={ms(token.lastUsedTime)} />
                  </span>
                ) : (
                  people.me.never
                ),
                token.expireTime ? <Age key="end" at={ms(token.expireTime)} /> : people.me.never,
                <Button key="act" onClick={() => onStep(end(token))}>
                  {people.me.end}
                </Button>,
              ],
            }))}
          />
          {value.nextPageToken !== "" && <p className={styles.words}>{people.me.moreTokens(value.tokens.length)}</p>}
        </>
      )}
    </Card>
  );
}

/** Returns what a token is limited to, in words. */
function limitOf(limit: TokenLimit | undefined) {
  if (!limit) return people.me.noLimit;
  const role = limit.roleName || (limit.role === AccessRole.UNSPECIFIED ? "" : AccessRole[limit.role].toLowerCase());
  const scopes = [
    ...(limit.projects ? [limit.projects.all ? people.me.allProjects : limit.projects.names.join(", ")] : []),
    ...(limit.clusters?.all ? [people.me.allClusters] : (limit.clusters?.names ?? [])),
    ...(limit.clusters?.labels ? [people.me.labelledClusters] : []),
    ...limit.services,
    ...limit.repositories,
  ];
  return (
    <>
      {role !== "" && <Badge>{role}</Badge>} {scopes.join(", ")}
    </>
  );
}

function Sessions({ person, onStep }: { person: string; onStep: (step: Step) => void }) {
  const hub = useHub();
  const { value, failure, store } = useLive(
    `sessions ${person}`,
    () => ({ load: (signal) => hub.signIns.listSessions({ person, page: { size: pageSize } }, { signal }) }),
    hub.surroundings,
  );
  const end = ({ id, client }: Session): Step => ({
    id,
    title: people.me.endSession(people.me.clients[client] ?? people.me.clients[0]),
    verb: people.me.end,
    isDangerous: true,
    body: <p>{people.me.endSessionBody}</p>,
    command: `leat revoke session ${shellQuote(id)}`,
    act: async (options) => {
      await hub.signIns.revokeSession({ id }, options);
      return people.me.ended;
    },
  });
  return (
    <Card title={people.me.sessions} note={<Command label={text.sameAs}>leat get sessions</Command>}>
      {failure ? (
        <ErrorState failure={failure} onRetry={store.retry} />
      ) : !value ? (
        <Skeleton />
      ) : value.sessions.length === 0 ? (
        <p className={styles.words}>{people.me.noSessions}</p>
      ) : (
        <Table
          columns={[...people.me.sessionColumns]}
          rows={value.sessions.map((session) => ({
            key: session.id,
            cells: [
              people.me.clients[session.client] ?? people.me.clients[0],
              session.provider,
              <Age key="made" at={ms(session.createTime)} />,
              <Age key="used" at={ms(session.lastUsedTime)} />,
              <Age key="end" at={ms(session.expireTime)} />,
              <Button key="act" onClick={() => onStep(end(session))}>
                {people.me.end}
              </Button>,
            ],
          }))}
        />
      )}
    </Card>
  );
}
