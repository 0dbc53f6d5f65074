// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { useState } from "react";
import { Actions, type Step, StepDialog, useAction } from "../../fleet/action.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { useRights } from "../../fleet/rights.ts";
import { isSuspended } from "../../fleet/sources.tsx";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import {
  type FleetSource,
  FleetSourceAction,
  type FleetSourceDocument,
  FleetSourceService,
} from "../../gen/leat/fleet/v1/fleet_source_pb";
import { type Hub, useHub } from "../../hub/hub.ts";
import { splitRef } from "../../hub/object.ts";
import { Button } from "../../parts/button.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

const words = delivery.fleetSource;
const verbs = ["sync", "confirm"] as const;

const pageSize = 500;
// A source has 10,000 documents at most, and problems come first.
const mostPages = 20;
const mostShown = 200;
/** So many objects go without the source's name being typed. */
const mostUntyped = 3;

interface Held {
  digest: string;
  count: number;
  documents: readonly FleetSourceDocument[];
}

/**
 * Reads what a confirmation would remove, with the digest that stands for exactly that. The digest is read before and
 * after, because a look between the two could hold others than were listed.
 */
async function readHeld(hub: Hub, name: string): Promise<Held> {
  const status = async () => {
    const { document } = await hub.call(FleetService).get({ kind: "FleetSource", name });
    return document?.object.case === "fleetSource" ? document.object.value.status : undefined;
  };
  const before = await status();
  const documents: FleetSourceDocument[] = [];
  let token = "";
  for (let page = 0; page < mostPages; page += 1) {
    const answer = await hub
      .call(FleetSourceService)
      .listFleetSourceDocuments({ name, page: { size: pageSize, token } });
    documents.push(...answer.documents.filter(({ action }) => action === FleetSourceAction.HELD));
    token = answer.nextPageToken;
    if (token === "" || documents.length >= (before?.held ?? 0)) break;
  }
  const after = await status();
  if (!before || !after || before.heldDigest !== after.heldDigest || after.heldDigest === "") {
    throw new ConnectError(words.confirmMoved, Code.FailedPrecondition);
  }
  return { digest: after.heldDigest, count: after.held, documents };
}

/** SourceActions are what a person can do with a fleet source. */
export function SourceActions({ name, source }: { name: string; source: FleetSource }) {
  const hub = useHub();
  const { run, running, failure } = useAction();
  const [step, setStep] = useState<Step>();
  const [request, setRequest] = useState(0n);
  const refused = useRights({ kind: "FleetSource", resource: "fleetsources", ref: name, ...splitRef(name) }, verbs);
  const { status } = source;
  const quoted = shellQuote(name);
  // A hub that is too old to number requests says nothing about when a look has obeyed one.
  const isLooking = request > (status?.observedRequest ?? 0n);
  const confirm = ({ digest, count, documents }: Held): Step => ({
    id: `confirm-${digest}`,
    title: words.confirmTitle(count, name),
    verb: words.confirmVerb(count),
    isDangerous: true,
    ...(count > mostUntyped && { typed: { text: name, help: words.typeNameHelp } }),
    body: (
      <>
        <p>{words.confirmBody}</p>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
        <section className={styles.held} aria-label={words.confirmTitle(count, name)} tabIndex={0}>
          <ul>
            {documents.slice(0, mostShown).map(({ kind, name }) => (
              <li key={`${kind} ${name}`}>
                <code>
                  {kind.toLowerCase()}/{name}
                </code>
              </li>
            ))}
            {count > Math.min(documents.length, mostShown) && (
              <li>{words.confirmMore(count - Math.min(documents.length, mostShown))}</li>
            )}
          </ul>
        </section>
      </>
    ),
    command: `leat fleetsource confirm ${quoted} ${shellQuote(digest)}`,
    act: async (options) => {
      await hub.call(FleetSourceService).confirmFleetSource({ name, digest }, options);
      return words.confirmed;
    },
  });
  const look = async () => {
    const held = await readHeld(hub, name);
    setStep(confirm(held));
    return words.confirmRead(held.count);
  };
  return (
    <Actions label={text.actions} {...(failure && { failure })}>
      {(status?.held ?? 0) > 0 && (
        <Button
          kind="primary"
          busy={running === "confirm"}
          refused={refused("confirm")}
          onClick={() => void run("confirm", look)}
        >
          {running === "confirm" ? words.reading : words.confirm}
        </Button>
      )}
      <Button
        kind={(status?.held ?? 0) > 0 ? "plain" : "primary"}
        busy={running === "sync" || isLooking}
        refused={refused("sync") ?? (isSuspended(source) ? words.syncSuspended : undefined)}
        onClick={() =>
          void run("sync", async () => {
            const answer = await hub.call(FleetSourceService).syncFleetSource({ name });
            setRequest(answer.request);
            return words.syncAsked;
          })
        }
      >
        {isLooking ? words.syncing : words.sync}
      </Button>
      <StepDialog step={step} onClose={() => setStep(undefined)} />
    </Actions>
  );
}
