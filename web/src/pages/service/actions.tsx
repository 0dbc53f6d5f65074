// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useState } from "react";
import { Actions, type Step, StepDialog, useAction } from "../../fleet/action.tsx";
import { type PauseHours, PauseLength, pauseEnd, pauseFlag } from "../../fleet/pause.tsx";
import { shellQuote, shortCommit } from "../../fleet/refs.ts";
import { type Refused, useRights } from "../../fleet/rights.ts";
import { setPaused, syncService } from "../../fleet/services.ts";
import { Table } from "../../fleet/table.tsx";
import type { Revision, Service } from "../../gen/leat/fleet/v1/resources_pb";
import { RolloutService } from "../../gen/leat/fleet/v1/rollout_pb";
import { type Hub, useHub } from "../../hub/hub.ts";
import { Button } from "../../parts/button.tsx";
import { text } from "../../text/en.ts";
import { serviceText } from "../../text/service.ts";

const verbs = ["sync", "pause", "rollback"];

/** Returns what the person may not do with a service. Parts that few people see ask for their own verbs. */
export const useServiceRights = (ref: string, { metadata, spec }: Service, of: readonly string[] = verbs): Refused =>
  useRights(
    {
      kind: "Service",
      resource: "services",
      ref,
      name: metadata?.name ?? "",
      project: metadata?.project ?? "",
      cluster: spec?.cluster ?? "",
      namespace: spec?.namespace || "default",
    },
    of,
  );

/** ServiceActions are what a person can do with a service. What they may not do is there, and says why. */
export function ServiceActions({ name, service, refused }: { name: string; service: Service; refused: Refused }) {
  const hub = useHub();
  const { run, running, failure } = useAction();
  const [step, setStep] = useState<Step>();
  const quoted = shellQuote(name);
  const pin = service.status?.hold?.pinnedRevision ?? 0n;
  const isPaused = service.spec?.paused === true && service.status?.pauseEnded !== true;
  const pauseStep = (hours: PauseHours): Step => ({
    id: "pause",
    title: serviceText.pauseTitle(name),
    verb: text.pause,
    body: (
      <>
        <p>{serviceText.pauseBody}</p>
        <PauseLength hours={hours} onChange={(next) => setStep(pauseStep(next))} />
      </>
    ),
    command: `leat pause service/${quoted}${pauseFlag(hours)}`,
    draft: `leat pause service/${quoted}`,
    act: (options) => setPaused(hub, name, true, options, pauseEnd(hours, hub.surroundings.now())),
  });
  return (
    <Actions label={text.actions} {...(failure && { failure })}>
      <Button
        kind="primary"
        busy={running === "sync"}
        refused={refused("sync")}
        onClick={() => void run("sync", () => syncService(hub, name, {}))}
      >
        {serviceText.sync}
      </Button>
      {isPaused ? (
        <Button
          busy={running === "resume"}
          refused={refused("pause")}
          onClick={() => void run("resume", () => setPaused(hub, name, false, {}))}
        >
          {text.resume}
        </Button>
      ) : (
        <Button icon="pause" refused={refused("pause")} onClick={() => setStep(pauseStep(0))}>
          {text.pause}
        </Button>
      )}
      {pin > 0n && (
        <Button
          refused={refused("rollback")}
          onClick={() =>
            setStep({
              id: "release",
              title: serviceText.releaseTitle(pin),
              verb: serviceText.release,
              body: <p>{serviceText.releaseBody}</p>,
              command: `leat rollback service/${quoted} --release`,
              act: async (options) => {
                await hub.call(RolloutService).releaseService({ name }, options);
                return serviceText.released;
              },
            })
          }
        >
          {serviceText.release}
        </Button>
      )}
      <StepDialog step={step} onClose={() => setStep(undefined)} />
    </Actions>
  );
}

/**
 * Returns the step back to a revision, with what it changes of each source, and a pin for so many hours. show replaces
 * it by the step with another number.
 */
export function rollbackStep(
  hub: Hub,
  name: string,
  service: Service,
  revision: Revision,
  show: (step: Step) => void,
  hours: PauseHours = 0,
): Step {
  const sources = service.spec?.sources ?? [];
  const version = (commits: readonly string[], versions: readonly string[], index: number) =>
    versions[index] || shortCommit(commits[index] ?? "");
  const now = service.status?.sources.map(({ snapshot }) => snapshot?.version || shortCommit(snapshot?.commit ?? ""));
  return {
    id: `rollback-${revision.number}`,
    title: serviceText.rollbackTitle(revision.number),
    verb: serviceText.rollback,
    isDangerous: true,
    body: (
      <>
        <p>{serviceText.rollbackBody(service.spec?.cluster ?? "")}</p>
        <Table
          columns={[text.column.repository, text.column.now, text.column.after]}
          rows={revision.commits.map((_, index) => ({
            key: String(index),
            cells: [
              sources[index]?.repository ?? "",
              <code key="now">{now?.[index]}</code>,
              <code key="then">{version(revision.commits, revision.versions, index)}</code>,
            ],
          }))}
        />
        <PauseLength
          of="pin"
          hours={hours}
          onChange={(next) => show(rollbackStep(hub, name, service, revision, show, next))}
        />
      </>
    ),
    command: `leat rollback service/${shellQuote(name)} --to ${revision.number}${pauseFlag(hours)}`,
    act: async (options) => {
      const until = pauseEnd(hours, hub.surroundings.now());
      const request = { name, revision: revision.number, ...(until && { until }) };
      const answer = await hub.call(RolloutService).rollbackService(request, options);
      return serviceText.rolledBack(answer.revision);
    },
  };
}
