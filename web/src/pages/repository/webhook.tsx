// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ReactNode, useId, useState } from "react";
import { ms } from "../../fleet/columns.tsx";
import { Card } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { Table } from "../../fleet/table.tsx";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { RepositoryType, type WebhookDelivery, WebhookOutcome } from "../../gen/leat/gitcache/v1/repository_pb";
import { type Hub, useHub } from "../../hub/hub.ts";
import { polled, type Source, useLive } from "../../hub/live.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { Icon } from "../../parts/icon.tsx";
import { LogLine } from "../../parts/line.tsx";
import type { Tone } from "../../parts/phase.tsx";
import { Notice, Skeleton } from "../../parts/states.tsx";
import { text } from "../../text/en.ts";
import { webhook } from "../../text/webhook.ts";
import styles from "./webhook.module.css";

type Provider = keyof typeof webhook.hosts;

const providers: Record<RepositoryType, readonly Provider[]> = {
  [RepositoryType.UNSPECIFIED]: [],
  [RepositoryType.GIT]: ["github", "gitlab", "gitea", "bitbucket", "bitbucket-server", "azure-devops", "generic"],
  [RepositoryType.HELM]: ["generic"],
  [RepositoryType.OCI]: ["distribution", "harbor", "generic"],
};

/** Returns the hosts that a repository can be at, the one that its URL speaks for first. */
function hostsFor(type: RepositoryType, url: string): readonly Provider[] {
  const all = providers[type || RepositoryType.GIT] ?? providers[RepositoryType.GIT];
  const likely: [RegExp, Provider][] = [
    [/[@/.]github\./, "github"],
    [/[@/.]gitlab\./, "gitlab"],
    [/[@/.]bitbucket\.org/, "bitbucket"],
    [/[@/.]bitbucket\./, "bitbucket-server"],
    [/dev\.azure\.com|visualstudio\.com/, "azure-devops"],
    [/[@/.](gitea|forgejo|codeberg)\./, "gitea"],
    [/[@/.]harbor\./, "harbor"],
  ];
  const first = likely.find(([form, provider]) => form.test(url) && all.includes(provider))?.[1];
  return first ? [first, ...all.filter((provider) => provider !== first)] : all;
}

const isProvider = (value: string | undefined): value is Provider =>
  value !== undefined && Object.hasOwn(webhook.hosts, value);

// Whoever sets a webhook up looks at the page; otherwise a delivery is seen soon enough.
const waiting = 3000;
const watching = 20_000;

/** Returns the source of a repository's deliveries: a call now and then, because a page has few streams. */
const deliveriesSource = (hub: Hub, name: string, pause: number): Source<readonly WebhookDelivery[]> =>
  polled<readonly WebhookDelivery[]>(
    async (signal) =>
      (await hub.call(FleetService).listWebhookDeliveries({ name }, { signal })).deliveries.slice(0, 20),
    pause,
    hub.surroundings,
  );

export interface WebhookProps {
  /** The repository, as people name it, and as addresses of the hub hold it. */
  name: string;
  path: string;
  type: RepositoryType;
  url: string;
  /** Why the person may not set the secret, or undefined if they may. */
  refused: string | undefined;
  /** The host of the steps that are shown. Without one none are. */
  host: string | undefined;
  onHost: (host: string | undefined) => void;
}

/** Webhook is how a push reaches the hub at once: what arrived, and how to set it up. */
export function Webhook({ name, path, type, url, refused, host, onHost }: WebhookProps) {
  const hub = useHub();
  const isOpen = host !== undefined;
  const { value, failure, asOf, link } = useLive(
    `webhooks ${name} ${isOpen}`,
    () => deliveriesSource(hub, name, isOpen ? waiting : watching),
    hub.surroundings,
  );
  const hosts = hostsFor(type, url);
  const [first = "generic"] = hosts;
  const chosen = isProvider(host) && hosts.includes(host) ? host : first;
  return (
    <Card
      title={webhook.title}
      note={<Command label={text.sameAs}>{`leat webhooks repository/${shellQuote(name)}`}</Command>}
    >
      <div className={styles.lead}>
        <p>{webhook.body}</p>
        <Button aria-expanded={isOpen} onClick={() => onHost(isOpen ? undefined : first)}>
          {isOpen ? webhook.hide : webhook.setUp}
        </Button>
      </div>
      {isOpen && (
        <Steps name={name} path={path} hosts={hosts} host={chosen} refused={refused} onHost={onHost}>
          {value && <Arrival deliveries={value} />}
        </Steps>
      )}
      {failure && (
        <div className={styles.part}>
          <Notice tone="idle" icon="offline" title={value && asOf !== undefined ? webhook.old(asOf) : webhook.unknown}>
            {failure.message !== "" && <p>{failure.message}</p>}
          </Notice>
        </div>
      )}
      {!value && !failure && link === "loading" && <Skeleton lines={2} />}
      {value && value.length > 0 && <Deliveries deliveries={value} />}
      {value?.length === 0 && !isOpen && <p className={styles.none}>{webhook.none}</p>}
    </Card>
  );
}

function Steps({
  name,
  path,
  hosts,
  host,
  refused,
  onHost,
  children,
}: Pick<WebhookProps, "name" | "path" | "refused" | "onHost"> & {
  hosts: readonly Provider[];
  host: Provider;
  children: ReactNode;
}) {
  const hub = useHub();
  const id = useId();
  const { value: info } = useLive(
    "server info",
    () => ({ load: (signal) => hub.call(FleetService).getServerInfo({}, { signal }) }),
    hub.surroundings,
  );
  const words = webhook.hosts[host];
  const address = `${info?.webhookUrl || "…/webhooks"}/${host}/${path}`;
  const quoted = shellQuote(name);
  const file = `${path}.yaml`;
  return (
    <ol className={styles.steps}>
      <li>
        <label htmlFor={id}>{webhook.choose}</label>
        <select id={id} value={host} onChange={(event) => onHost(event.target.value)}>
          {hosts.map((each) => (
            <option key={each} value={each}>
              {webhook.hosts[each].name}
            </option>
          ))}
        </select>
      </li>
      <li>
        <p>{webhook.secret}</p>
        {refused !== undefined && refused !== text.rightsLoading && <Notice tone="warn" icon="lock" title={refused} />}
        <Command>openssl rand -hex 32</Command>
        <Command>{`leat get repository ${quoted} -o yaml > ${file}`}</Command>
        <Command>{`leat apply -f ${file}`}</Command>
        <p className={styles.quiet}>{webhook.secretOfHub}</p>
      </li>
      <li>
        <p>{words.where}</p>
        <dl className={styles.form}>
          <div>
            <dt>{webhook.address}</dt>
            <dd>
              <Command isText>{address}</Command>
              {info?.webhookUrl === "" && <p className={styles.quiet}>{webhook.noAddress}</p>}
            </dd>
          </div>
          {words.form.map(([field, entered]) => (
            <div key={field}>
              <dt>{field}</dt>
              <dd>{entered}</dd>
            </div>
          ))}
        </dl>
      </li>
      <li>{children}</li>
    </ol>
  );
}

const newest = (deliveries: readonly WebhookDelivery[]) => ms(deliveries[0]?.receiveTime) ?? 0;

/** Arrival waits for the first delivery since it is shown, and says what became of it. */
function Arrival({ deliveries }: { deliveries: readonly WebhookDelivery[] }) {
  const [known] = useState(() => newest(deliveries));
  const [latest] = deliveries;
  const outcome = latest && newest(deliveries) > known ? outcomeOf(latest) : undefined;
  return (
    <div role="status" className={styles.arrival}>
      {outcome ? (
        <Notice tone={outcome.tone} icon={outcome.tone === "ok" ? "check" : "alert"} title={webhook.arrived}>
          <p>{`${outcome.word}. ${outcome.advice}`}</p>
        </Notice>
      ) : (
        <>
          <p className={styles.waiting}>
            <Icon name="clock" />
            {webhook.waiting}
          </p>
          <p className={styles.quiet}>{webhook.waitingAdvice}</p>
        </>
      )}
    </div>
  );
}

const tones: Partial<Record<WebhookOutcome, Tone>> = {
  [WebhookOutcome.ACCEPTED]: "ok",
  [WebhookOutcome.PING]: "ok",
  [WebhookOutcome.IGNORED]: "idle",
  [WebhookOutcome.REPLAYED]: "idle",
  [WebhookOutcome.UNMATCHED]: "warn",
  [WebhookOutcome.BROKEN_OFF]: "warn",
  [WebhookOutcome.TOO_LARGE]: "warn",
  [WebhookOutcome.LIMITED]: "warn",
};

function outcomeOf({ outcome }: WebhookDelivery) {
  const [word, advice] = webhook.outcomes[outcome] ?? [text.phase.UNKNOWN, ""];
  const tone: Tone = outcome === WebhookOutcome.UNSPECIFIED ? "idle" : (tones[outcome] ?? "bad");
  return { word, advice, tone };
}

/** Deliveries are the last ones, with what became of each. Their senders wrote the provider and the refs. */
function Deliveries({ deliveries }: { deliveries: readonly WebhookDelivery[] }) {
  return (
    <Table
      columns={[webhook.received, webhook.host, webhook.outcome, webhook.refs]}
      rows={deliveries.map((delivery, index) => {
        const { word, advice, tone } = outcomeOf(delivery);
        const { provider } = delivery;
        return {
          key: String(index),
          cells: [
            <Age key="age" at={ms(delivery.receiveTime)} />,
            isProvider(provider) ? webhook.hosts[provider].name : <LogLine key="from">{provider}</LogLine>,
            <div key="outcome" className={styles.outcome}>
              <Badge tone={tone}>{word}</Badge>
              {tone !== "ok" && <span className={styles.quiet}>{advice}</span>}
            </div>,
            delivery.refs.length > 0 && (
              <code key="refs">
                <LogLine most={200}>
                  {delivery.refs
                    .slice(0, 4)
                    .map((ref) => ref.replace(/^refs\/(heads|tags)\//, ""))
                    .join(", ")}
                </LogLine>
              </code>
            ),
          ],
        };
      })}
    />
  );
}
