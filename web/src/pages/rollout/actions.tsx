// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { useState } from "react";
import { Actions, type Step, StepDialog } from "../../fleet/action.tsx";
import { type PauseHours, PauseLength, pauseEnd, pauseFlag } from "../../fleet/pause.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { type Refused, useRights } from "../../fleet/rights.ts";
import { hasEnded, needsPerson } from "../../fleet/rollouts.tsx";
import { type Rollout, type RolloutPolicy, RolloutService, type RolloutWave } from "../../gen/leat/fleet/v1/rollout_pb";
import { type Hub, useHub } from "../../hub/hub.ts";
import { splitRef } from "../../hub/object.ts";
import type { Person } from "../../hub/token.ts";
import { Button } from "../../parts/button.tsx";
import { useSignIn } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";

const verbs = ["pause", "control", "approve"] as const;

/** Returns the wave of the policy that is the rollout's current one. A policy that was edited since may not have it. */
export const currentWave = (policy: RolloutPolicy, rollout: Rollout): RolloutWave | undefined =>
  policy.spec?.waves.find((wave) => wave.name === rollout.wave);

/** Returns why the person may not approve the current wave, as the hub decides it. */
export function approvalRefused(
  rollout: Rollout,
  wave: RolloutWave | undefined,
  person: Person | undefined,
  refused: Refused,
): string | undefined {
  const groups = wave?.approval?.groups ?? [];
  const given = rollout.waves.find(({ name }) => name === rollout.wave)?.approvedBy ?? [];
  if (person && given.includes(person.name)) return delivery.rollout.approvedAlready;
  if (groups.length === 0) {
    const why = refused("approve");
    if (why !== undefined) return why;
  } else if (!groups.some((group) => person?.groups.includes(group))) {
    return delivery.rollout.byGroups(rollout.wave, groups);
  }
  if (wave?.approval?.notByAuthor && person && rollout.authors.includes(person.name)) return delivery.rollout.byAuthor;
  return undefined;
}

/** Has the latest rollout obey, if that is still the one that the person has seen. */
async function control(
  hub: Hub,
  name: string,
  seen: bigint,
  verb: string,
  hours: PauseHours,
  options: CallOptions,
): Promise<void> {
  const { rollout } = await hub.call(RolloutService).getRollout({ name, page: { size: 1 } });
  if (rollout && rollout.number !== seen) {
    throw new ConnectError(delivery.rollout.moved(rollout.number), Code.FailedPrecondition);
  }
  const until = pauseEnd(hours, hub.surroundings.now());
  await hub.call(RolloutService).controlRollout({ name, verb, ...(until && { until }) }, options);
}

interface Choice {
  verb: string;
  kind?: "primary" | "danger";
  icon?: "pause";
  label: string;
  title: string;
  body: string;
  done: string;
  refused: string | undefined;
}

/** Returns what a person can ask of a rollout now, besides an approval: nothing that its state makes senseless. */
function choicesOf(rollout: Rollout, wave: RolloutWave | undefined, refused: Refused): Choice[] {
  const words = delivery.rollout;
  const { number, state } = rollout;
  const mayNotControl = refused("control");
  // The right to control includes to pause.
  const mayNotPause = mayNotControl === undefined ? undefined : refused("pause");
  const retry = { verb: "retry", label: words.retry, title: words.retryTitle(number), done: words.retried };
  if (hasEnded(rollout)) {
    const isOpen = state === "rolledBack" || state === "aborted";
    return isOpen ? [{ ...retry, body: words.retryEndedBody, refused: mayNotControl }] : [];
  }
  const current = rollout.waves.find(({ name }) => name === rollout.wave);
  const missing = Math.max(0, (wave?.approval ? wave.approval.count || 1 : 0) - (current?.approvedBy.length ?? 0));
  const choices: (Choice | false)[] = [
    state === "halted" && { ...retry, kind: "primary", body: words.retryBody, refused: mayNotControl },
    state === "paused" && {
      verb: "resume",
      kind: "primary",
      label: text.resume,
      title: words.resumeTitle(number),
      body: words.resumeBody,
      done: words.resumed,
      refused: mayNotPause,
    },
    state !== "paused" &&
      state !== "halted" && {
        verb: "pause",
        icon: "pause",
        label: text.pause,
        title: words.pauseTitle(number),
        body: words.pauseBody,
        done: words.paused,
        refused: mayNotPause,
      },
    state !== "rollingBack" &&
      current !== undefined &&
      current.name !== "late" && {
        verb: "skip-wave",
        label: words.skip,
        title: words.skipTitle(current.name),
        body: words.skipBody(current.total - current.arrived),
        done: words.skipped,
        refused: mayNotControl ?? (missing > 0 ? words.skipNeedsApproval(current.name, missing) : undefined),
      },
    state !== "rollingBack" && {
      verb: "rollback",
      kind: "danger",
      label: words.rollback,
      title: words.rollbackTitle(number),
      body: words.rollbackBody(rollout.arrived),
      done: words.rolledBack,
      refused: mayNotControl,
    },
    {
      verb: "abort",
      kind: "danger",
      label: words.abort,
      title: words.abortTitle(number),
      body: words.abortBody(rollout.arrived, rollout.total - rollout.arrived),
      done: words.aborted,
      refused: mayNotControl,
    },
  ];
  return choices.filter((choice) => choice !== false);
}

/** RolloutActions are what a person can do with the latest rollout of a policy. */
export function RolloutActions({
  name,
  policy,
  rollout,
  onDone,
}: {
  name: string;
  policy: RolloutPolicy;
  rollout: Rollout;
  onDone: () => void;
}) {
  const hub = useHub();
  const signIn = useSignIn();
  const [step, setStep] = useState<Step>();
  const refused = useRights(
    { kind: "RolloutPolicy", resource: "rolloutpolicies", ref: name, ...splitRef(name) },
    verbs,
  );
  const wave = currentWave(policy, rollout);
  const quoted = shellQuote(name);
  const approve = (): Step => ({
    id: "approve",
    title: delivery.rollout.approveTitle(rollout.wave),
    verb: delivery.rollout.approve,
    body: <p>{delivery.rollout.approveBody(rollout.wave)}</p>,
    command: `leat rollout approve ${quoted} --wave ${shellQuote(rollout.wave)}`,
    act: async (options) => {
      await hub.call(RolloutService).approveRollout({ name, wave: rollout.wave }, options);
      onDone();
      return delivery.rollout.approved;
    },
  });
  const stepOf = (choice: Choice, hours: PauseHours = 0): Step => ({
    id: choice.verb,
    title: choice.title,
    verb: choice.label,
    isDangerous: choice.kind === "danger",
    body: (
      <>
        <p>{choice.body}</p>
        {choice.verb === "pause" && <PauseLength hours={hours} onChange={(next) => setStep(stepOf(choice, next))} />}
      </>
    ),
    command: `leat rollout ${choice.verb} ${quoted}${pauseFlag(hours)}`,
    draft: `leat rollout ${choice.verb} ${quoted}`,
    act: async (options) => {
      await control(hub, name, rollout.number, choice.verb, hours, options);
      onDone();
      return choice.done;
    },
  });
  const isApprovable =
    (rollout.state === "running" || rollout.state === "paused") &&
    rollout.wave !== "" &&
    (wave?.approval !== undefined || rollout.waitsOn === "person");
  const choices = choicesOf(rollout, wave, refused);
  if (choices.length === 0) return null;
  return (
    <Actions label={text.actions}>
      {isApprovable && (
        <Button
          kind={needsPerson(rollout) ? "primary" : "plain"}
          refused={approvalRefused(rollout, wave, signIn.state === "in" ? signIn.person : undefined, refused)}
          onClick={() => setStep(approve())}
        >
          {delivery.rollout.approve}
        </Button>
      )}
      {choices.map((choice) => (
        <Button
          key={choice.verb}
          kind={choice.kind ?? "plain"}
          {...(choice.icon && { icon: choice.icon })}
          refused={choice.refused}
          onClick={() => setStep(stepOf(choice))}
        >
          {choice.label}
        </Button>
      ))}
      <StepDialog step={step} onClose={() => setStep(undefined)} />
    </Actions>
  );
}
