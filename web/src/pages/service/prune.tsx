// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { useState } from "react";
import { Actions, type Step, StepDialog, useAction } from "../../fleet/action.tsx";
import { Card } from "../../fleet/page.tsx";
import { hasProtection } from "../../fleet/protected.ts";
import { refIn, shellQuote } from "../../fleet/refs.ts";
import { ApplyMode, type Document } from "../../gen/leat/fleet/v1/document_pb";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { type Service, SyncOptionsSchema } from "../../gen/leat/fleet/v1/resources_pb";
import { type Hub, useHub } from "../../hub/hub.ts";
import { keyOf, type Ref, refOf } from "../../kube/refs.ts";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { Notice } from "../../parts/states.tsx";
import { act } from "../../text/act.ts";
import { text } from "../../text/en.ts";
import { useServiceRights } from "./actions.tsx";
import styles from "./prune.module.css";

const words = act.prune;
const verbs = ["confirm"];

/** So many objects go without the service's name being typed. */
const mostUntyped = 3;
/** How many objects an agent names. */
const mostNamed = 50;
const mostMessage = 2000;

interface Held {
  document: Document;
  service: Service;
  digest: string;
  objects: readonly Ref[];
}

/** Reads what the guard keeps now. The digest stands for exactly the objects beside it. */
async function readHeld(hub: Hub, name: string): Promise<Held | undefined> {
  const { document } = await hub.call(FleetService).get({ kind: "Service", name });
  if (document?.object.case !== "service") return undefined;
  const service = document.object.value;
  const { guardedSpecDigest: digest = "", guarded = [] } = service.status?.report ?? {};
  return digest === "" ? undefined : { document, service, digest, objects: guarded.map(refOf) };
}

/** Reports whether the service's cluster is protected; undefined: the person may not see that, or nobody answers. */
async function readProtected(hub: Hub, cluster: string): Promise<boolean | undefined> {
  try {
    const { document } = await hub.call(FleetService).get({ kind: "Cluster", name: cluster });
    return document?.object.case === "cluster"
      ? hasProtection(document.object.value.metadata?.labels ?? {})
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Agrees to the objects of a digest, and to nothing else. An edit of others since the list was read is kept, and one in
 * between is refused by the version.
 */
async function agree(hub: Hub, name: string, digest: string, options: CallOptions): Promise<string> {
  const held = await readHeld(hub, name);
  if (!held) throw new ConnectError(words.gone, Code.FailedPrecondition);
  const { document, service } = held;
  if (held.digest !== digest || !service.spec) throw new ConnectError(words.moved, Code.FailedPrecondition);
  service.spec.sync ??= create(SyncOptionsSchema);
  service.spec.sync.pruneConfirmation = digest;
  await hub.call(FleetService).apply({ documents: [document], mode: ApplyMode.UPDATE }, options);
  return words.done;
}

/** Objects are the kinds and names of what would go. The cluster writes them, so they are text of any length. */
function Objects({ objects }: { objects: readonly Ref[] }) {
  if (objects.length === 0) return <p>{words.unnamed}</p>;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
      <section className={styles.objects} aria-label={words.objects} tabIndex={0}>
        <ul>
          {objects.slice(0, mostNamed).map((ref) => (
            <li key={keyOf(ref)}>
              <span className={styles.kind}>{[ref.kind, ref.group].filter(Boolean).join(".")}</span>{" "}
              <strong>{ref.name}</strong> <span className={styles.kind}>{ref.namespace}</span>
            </li>
          ))}
        </ul>
      </section>
      {objects.length >= mostNamed && <p className={styles.note}>{words.most(mostNamed)}</p>}
    </>
  );
}

/**
 * Prune is what the agent's guard holds back: which objects would go and why it stopped. A person agrees to the list
 * that the page has shown, by its digest.
 */
export function Prune({ name, service }: { name: string; service: Service }) {
  const hub = useHub();
  const refused = useServiceRights(name, service, verbs);
  const { run, running, failure } = useAction();
  const [step, setStep] = useState<Step>();
  const { spec, status, metadata } = service;
  const report = status?.report;
  const objects = (report?.guarded ?? []).map(refOf);
  const isAgreed = spec?.sync?.pruneConfirmation === report?.guardedSpecDigest;
  const cluster = refIn(metadata?.project ?? "", spec?.cluster ?? "");
  const command = `leat prune confirm service/${shellQuote(name)}`;

  const look = async () => {
    const [held, isGuarded] = await Promise.all([readHeld(hub, name), readProtected(hub, cluster)]);
    if (!held) throw new ConnectError(words.gone, Code.FailedPrecondition);
    const { digest, objects } = held;
    const isLong = objects.length === 0 || objects.length > mostUntyped;
    const help = [
      isLong && words.typeMany,
      isGuarded && words.typeProtected(cluster),
      isGuarded === undefined && words.typeUnknown(cluster),
    ].filter((part) => part !== false);
    setStep({
      id: `prune-${digest}`,
      title: words.confirmTitle(name),
      verb: objects.length === 0 || objects.length >= mostNamed ? words.verbMany : words.verb(objects.length),
      isDangerous: true,
      ...(help.length > 0 && { typed: { text: name, help: help.join(" ") } }),
      body: (
        <>
          <p>{words.body}</p>
          <Objects objects={objects} />
          <p className={styles.note}>{words.stays}</p>
        </>
      ),
      command,
      act: (options) => agree(hub, name, digest, options),
    });
    return words.read(objects.length);
  };

  const message = (report?.problem?.message ?? "").slice(0, mostMessage);
  return (
    <Card title={words.title} note={<Command label={text.sameAs}>{command}</Command>}>
      <div className={styles.held}>
        <Notice
          tone={isAgreed ? "progress" : "warn"}
          icon={isAgreed ? "clock" : "person"}
          title={isAgreed ? words.agreed : text.sentence(message)}
        >
          {isAgreed && <p>{words.agreedBody}</p>}
        </Notice>
        <Objects objects={objects} />
        {!isAgreed && (
          <Actions label={words.title} {...(failure && { failure })}>
            <Button
              kind="danger"
              busy={running !== undefined}
              refused={refused("confirm")}
              onClick={() => void run("confirm", look)}
            >
              {running ? words.reading : words.confirm}
            </Button>
          </Actions>
        )}
      </div>
      <StepDialog step={step} onClose={() => setStep(undefined)} />
    </Card>
  );
}
