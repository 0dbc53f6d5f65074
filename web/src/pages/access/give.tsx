// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useEffect, useId, useMemo, useState } from "react";
import { StepDialog } from "../../fleet/action.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { ApplyMode, DocumentSchema } from "../../gen/leat/fleet/v1/document_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { AccessRole } from "../../gen/leat/type/v1/access_pb";
import { useHub } from "../../hub/hub.ts";
import { Button } from "../../parts/button.tsx";
import { TextField } from "../../parts/field.tsx";
import { people } from "../../text/people.ts";
import { bindingName, hours, namesOf } from "./binding.ts";
import styles from "./page.module.css";

const words = people.give;

/** What the answer that the person looks at is about. It is what they most likely want to give. */
export interface Wanted {
  user: string;
  cluster: string;
  namespace: string;
}

const roles = ["viewer", "operator", "editor", "admin"] as const;
const roleOf = {
  viewer: AccessRole.VIEWER,
  operator: AccessRole.OPERATOR,
  editor: AccessRole.EDITOR,
  admin: AccessRole.ADMIN,
};
const most = 256; // names of a binding, as the hub bounds them

/** GiveAccess offers to give people a role in clusters for some time, unless the hub says that it would refuse that. */
export function GiveAccess({ wanted }: { wanted: Wanted }) {
  const hub = useHub();
  const [refused, setRefused] = useState<string | undefined>(words.asking);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const ended = new AbortController();
    const attributes = { verb: "create", apiGroup: "leat.dev", resource: "accessbindings" };
    hub
      .call(FleetService)
      .reviewAccess({ attributes }, { signal: ended.signal })
      .then(
        ({ allowed, reason }) => setRefused(allowed ? undefined : words.refused(reason.slice(0, 2000))),
        // The call itself says whether it is allowed, or that the hub does not answer.
        () => setRefused(undefined),
      );
    return () => ended.abort();
  }, [hub]);
  return (
    <>
      <Button refused={refused} onClick={() => setOpen(true)}>
        {words.button}
      </Button>
      {isOpen && <Give wanted={wanted} onClose={() => setOpen(false)} />}
    </>
  );
}

function Give({ wanted, onClose }: { wanted: Wanted; onClose: () => void }) {
  const hub = useHub();
  const id = useId();
  const opened = useMemo(() => hub.surroundings.now(), [hub]);
  const [users, setUsers] = useState(wanted.user);
  const [groups, setGroups] = useState("");
  const [clusters, setClusters] = useState(wanted.cluster);
  const [namespaces, setNamespaces] = useState(wanted.namespace);
  const [role, setRole] = useState<(typeof roles)[number]>("viewer");
  const [life, setLife] = useState<(typeof hours)[number]>(24);
  const of = {
    users: namesOf(users),
    groups: namesOf(groups),
    clusters: namesOf(clusters),
    namespaces: namesOf(namespaces),
  };
  const missing =
    of.users.length + of.groups.length === 0
      ? words.needsPeople
      : of.clusters.length === 0
        ? words.needsClusters
        : Object.values(of).some((names) => names.length > most)
          ? words.tooMany(most)
          : undefined;
  const name = bindingName([...of.users, ...of.groups, ...of.clusters], opened);
  const command = [
    `leat create accessbinding ${name}`,
    ...of.users.map((each) => `--for-user ${shellQuote(each)}`),
    ...of.groups.map((each) => `--for-group ${shellQuote(each)}`),
    `--role ${role}`,
    ...of.clusters.map((each) => `--cluster ${shellQuote(each)}`),
    ...of.namespaces.map((each) => `-n ${shellQuote(each)}`),
    life > 0 && `--expires ${life}h`,
  ];
  return (
    <StepDialog
      onClose={onClose}
      step={{
        id: "give",
        title: words.title,
        verb: words.verb,
        refused: missing,
        command: command.filter(Boolean).join(" "),
        act: async (options) => {
          const document = create(DocumentSchema, {
            object: {
              case: "accessBinding",
              value: {
                metadata: { name },
                spec: {
                  users: of.users,
                  groups: of.groups,
                  clusters: { names: of.clusters },
                  role: roleOf[role],
                  rules: of.namespaces.length > 0 ? [{ namespaces: of.namespaces }] : [],
                  ...(life > 0 && { expireTime: timestampFromMs(hub.surroundings.now() + life * 3_600_000) }),
                },
              },
            },
          });
          await hub.call(FleetService).apply({ documents: [document], mode: ApplyMode.CREATE }, options);
          return words.done(name);
        },
        body: (
          <>
            <p>{words.body}</p>
            <TextField label={words.users} help={words.usersHelp} value={users} most={4096} onChange={setUsers} />
            <TextField label={words.groups} help={words.groupsHelp} value={groups} most={4096} onChange={setGroups} />
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
              <label htmlFor={`${id}-role`}>{words.role}</label>
              <select
                id={`${id}-role`}
                value={role}
                onChange={(event) => setRole(roles.find((each) => each === event.target.value) ?? "viewer")}
              >
                {roles.map((each) => (
                  <option key={each} value={each}>
                    {words.roles[each]}
                  </option>
                ))}
              </select>
              <label htmlFor={`${id}-life`}>{words.life}</label>
              <select
                id={`${id}-life`}
                value={life}
                onChange={(event) => setLife(hours.find((each) => String(each) === event.target.value) ?? 24)}
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
