// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { Card } from "../../fleet/page.tsx";
import { refIn, shellQuote, splitService } from "../../fleet/refs.ts";
import { Table, type TableRow } from "../../fleet/table.tsx";
import type { ConfigExplanation, ConfigShadowed } from "../../gen/leat/fleet/v1/config_backend_pb";
import { ConfigState } from "../../gen/leat/fleet/v1/config_backend_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { useHub } from "../../hub/hub.ts";
import { polled, useLive } from "../../hub/live.ts";
import { splitRef } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Command } from "../../parts/command.tsx";
import type { IconName } from "../../parts/icon.tsx";
import { LogLine } from "../../parts/line.tsx";
import { LiveState, type Tone } from "../../parts/phase.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { text } from "../../text/en.ts";
import { govern } from "../../text/govern.ts";
import styles from "./config.module.css";

const words = govern.layers;

/** A back end may rotate a value, and no stream tells of that. */
const every = 15_000;
/** So many keys that a rollout holds back are named. */
const mostHeld = 100;
/** So many characters of a reference or a message are shown. */
const mostText = 400;

const looks: Record<ConfigState, { tone: Tone; icon: IconName }> = {
  [ConfigState.UNSPECIFIED]: { tone: "idle", icon: "unknown" },
  [ConfigState.CURRENT]: { tone: "ok", icon: "check" },
  [ConfigState.STALE]: { tone: "warn", icon: "clock" },
  [ConfigState.MISSING]: { tone: "bad", icon: "cross" },
};

const byUrgency = [ConfigState.MISSING, ConfigState.STALE, ConfigState.UNSPECIFIED, ConfigState.CURRENT];

const compare = (a: ConfigExplanation, b: ConfigExplanation): number =>
  byUrgency.indexOf(a.state) - byUrgency.indexOf(b.state) || (a.key < b.key ? -1 : 1);

/** Config is where each value of a service's configuration comes from: those that are missing or old come first. */
export function Config({ name }: { name: string }) {
  const hub = useHub();
  const { value, failure, link, store } = useLive(
    `config ${name}`,
    () =>
      polled((signal) => hub.call(FleetService).explainServiceConfig({ name }, { signal }), every, hub.surroundings),
    hub.surroundings,
  );
  const command = `leat config explain service/${shellQuote(name)}`;
  if (failure && (!value || link === "stopped")) {
    return <ErrorState failure={failure} onRetry={store.retry} command={command} />;
  }
  if (!value) return <Skeleton lines={8} />;
  const { project } = splitRef(splitService(name).name);
  const { keys, heldBy, heldKeys } = value;
  return (
    <Card title={words.tab} note={<Command label={text.sameAs}>{command}</Command>}>
      {heldBy !== "" && (
        <div className={styles.words}>
          <Notice
            tone="progress"
            icon="pause"
            title={
              <Link to="/rollouts/$" params={{ _splat: refIn(project, heldBy) }}>
                {words.held(heldBy, heldKeys.length)}
              </Link>
            }
          >
            <p>{heldKeys.slice(0, mostHeld).join(", ")}</p>
          </Notice>
        </div>
      )}
      {keys.length === 0 ? (
        <Empty icon="sliders" title={words.none}>
          <p>{words.noneBody}</p>
        </Empty>
      ) : (
        <>
          <Table columns={[...words.columns]} rows={[...keys].sort(compare).map((key) => rowOf(project, key))} />
          <p className={styles.words}>{words.neverShown}</p>
        </>
      )}
    </Card>
  );
}

function rowOf(project: string, key: ConfigExplanation): TableRow {
  const { tone, icon } = looks[key.state] ?? looks[ConfigState.UNSPECIFIED];
  return {
    key: key.key,
    cells: [
      <span key="key" className={styles.key}>
        <code>{key.key}</code>
        {key.secret && <Badge>{words.secret}</Badge>}
      </span>,
      <Layer key="layer" project={project} of={key} />,
      key.reference !== "" && (
        <code key="reference">
          <LogLine most={mostText}>{key.reference}</LogLine>
        </code>
      ),
      <span key="state" className={styles.state}>
        <LiveState tone={tone} icon={icon}>
          {words.states[key.state] ?? text.phase.UNKNOWN}
        </LiveState>
        {key.readTime && (
          <span className={styles.quiet}>
            {words.read} <Age at={ms(key.readTime)} />
          </span>
        )}
      </span>,
    ],
    note: noteOf(key),
  };
}

/** Layer is what sets a key. A set leads to its page. */
function Layer({ project, of }: { project: string; of: ConfigExplanation | ConfigShadowed }) {
  const word = words.byLayer[of.layer] ?? of.layer;
  if (of.set === "") return [word, of.override].filter(Boolean).join(" ");
  return (
    <>
      {word}{" "}
      <Link to="/configuration/sets/$" params={{ _splat: refIn(project, of.set) }}>
        {of.set}
      </Link>
    </>
  );
}

/** Returns a layer in words, as `leat config explain` does. */
const layerName = ({ layer, set, override }: ConfigShadowed): string =>
  [words.byLayer[layer] ?? layer, set || override].filter(Boolean).join(" ");

/** Returns what more there is to a key, or nothing. */
function noteOf(key: ConfigExplanation) {
  const parts = [
    key.problem && text.sentence(key.problem.message || reasonName(key.problem.reason)),
    key.resolvedReference !== "" && `${words.resolved}: ${key.resolvedReference}`,
    key.through.length > 0 && words.through(text.list(key.through)),
    key.shadows.length > 0 && words.shadows(text.list(key.shadows.map(layerName))),
    key.sameAs.length > 0 && words.sameAs(text.list(key.sameAs)),
  ].filter((part): part is string => Boolean(part));
  if (parts.length === 0) return undefined;
  return (
    <div className={styles.note}>
      {parts.map((part) => (
        <p key={part}>
          <LogLine most={mostText}>{part}</LogLine>
        </p>
      ))}
    </div>
  );
}
