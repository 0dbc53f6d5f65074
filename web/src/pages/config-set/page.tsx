// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi } from "@tanstack/react-router";
import { ObjectHead } from "../../fleet/head.tsx";
import { Card, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import type { ServiceConfig } from "../../gen/leat/fleet/v1/resources_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { rowSource } from "../../hub/object.ts";
import { Icon } from "../../parts/icon.tsx";
import { LogLine } from "../../parts/line.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { govern } from "../../text/govern.ts";
import styles from "./page.module.css";

const route = getRouteApi("/configuration/sets/$");
const words = govern.configuration;

/** So many characters of a value are shown. */
const mostValue = 400;

/** ConfigSetPage is one set: its keys, and where their values are. The hub never returns a secret. */
export function ConfigSetPage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `config set ${ref}`,
    () => rowSource(hub, "ConfigSet", ref),
    hub.surroundings,
  );
  useTitle(ref);
  const command = `leat get configset ${shellQuote(ref)} -o yaml`;
  if (failure && (!value || link === "stopped")) {
    return <ErrorState failure={failure} onRetry={store.retry} command={command} />;
  }
  if (link === "loading") return <Skeleton lines={8} />;
  const object = value?.document?.object;
  if (object?.case !== "configSet") {
    return (
      <ErrorState failure={{ kind: "missing", reason: "", message: "", metadata: {} }} command="leat get configsets" />
    );
  }
  const { spec } = object.value;
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/configuration", title: text.configuration }}
        name={ref}
        phase=""
        since={undefined}
        link={link}
        command={command}
      />
      {spec?.description && <p>{spec.description}</p>}
      <Keys config={spec?.config} />
    </Page>
  );
}

interface Key {
  key: string;
  kind: "value" | "secret" | "reference";
  shown: string;
}

/** Returns the keys of a configuration in the order of their names. A key is in one of its three parts only. */
function keysOf(config: ServiceConfig | undefined): Key[] {
  const keys = [
    ...Object.entries(config?.values ?? {}).map(([key, shown]): Key => ({ key, kind: "value", shown })),
    // Whatever a hub may send there, a secret is not shown.
    ...Object.keys(config?.secrets ?? {}).map((key): Key => ({ key, kind: "secret", shown: "" })),
    ...Object.entries(config?.references ?? {}).map(([key, shown]): Key => ({ key, kind: "reference", shown })),
  ];
  return keys.sort((a, b) => (a.key < b.key ? -1 : 1));
}

function Keys({ config }: { config: ServiceConfig | undefined }) {
  const keys = keysOf(config);
  return (
    <Card title={words.keys} note={text.number(keys.length)}>
      {keys.length === 0 ? (
        <p className={styles.words}>{words.noKeys}</p>
      ) : (
        <Table
          columns={[...words.keyColumns]}
          rows={keys.map(({ key, kind, shown }) => ({
            key,
            cells: [
              <code key="key">{key}</code>,
              words[kind],
              kind === "secret" ? (
                <span key="shown" className={styles.secret}>
                  <Icon name="lock" />
                  {words.secretShown}
                </span>
              ) : (
                <code key="shown">
                  <LogLine most={mostValue}>{shown}</LogLine>
                </code>
              ),
            ],
          }))}
        />
      )}
    </Card>
  );
}
