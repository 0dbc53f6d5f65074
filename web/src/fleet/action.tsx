// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { CallOptions } from "@connectrpc/connect";
import { type ReactNode, useState } from "react";
import { type Failure, failureOf } from "../hub/failure.ts";
import { Button } from "../parts/button.tsx";
import { Command } from "../parts/command.tsx";
import { TextField } from "../parts/field.tsx";
import { Dialog } from "../parts/overlay.tsx";
import { Notice } from "../parts/states.tsx";
import { say } from "../parts/status.tsx";
import { text } from "../text/en.ts";
import styles from "./action.module.css";
import { useDraft } from "./draft.ts";
import { shellQuote } from "./refs.ts";

/** Returns the options of a call that states why the person makes it. The hub keeps that with its record. */
export const stating = (reason: string): CallOptions =>
  reason.trim() === "" ? {} : { headers: { "Leat-Reason": encodeURIComponent(reason.trim()) } };

/** Unsuccessful is thrown by an action that the hub has carried out, and whose result is a failure. */
export class Unsuccessful extends Error {
  readonly failure: Failure;

  constructor(reason: string, message: string) {
    super(message);
    this.failure = { kind: "failed", reason, message, metadata: {} };
  }
}

export interface Action {
  /** The id of the action that runs. */
  running: string | undefined;
  failure: Failure | undefined;
  /** Runs an action, and says the sentence that it returns, if there is one. Reports whether it succeeded. */
  run: (id: string, call: () => Promise<string>) => Promise<boolean>;
  forget: () => void;
}

/** Returns a way to run the actions of a page: one at a time, with its result said and its failure kept to be read. */
export function useAction(): Action {
  const [running, setRunning] = useState<string>();
  const [failure, setFailure] = useState<Failure>();
  return {
    running,
    failure,
    async run(id, call) {
      setRunning(id);
      setFailure(undefined);
      try {
        const sentence = await call();
        if (sentence !== "") say(sentence);
        return true;
      } catch (thrown) {
        setFailure(thrown instanceof Unsuccessful ? thrown.failure : failureOf(thrown));
        return false;
      } finally {
        setRunning(undefined);
      }
    },
    forget: () => setFailure(undefined),
  };
}

/** ActionFailure is what the hub said to an action: its words, its advice, and its reason. */
export function ActionFailure({ failure }: { failure: Failure | undefined }) {
  const advice = failure && (text.advice[failure.reason] ?? text.failureAdvice[failure.kind]);
  return (
    <div role="alert">
      {failure && (
        <Notice
          tone="bad"
          icon="cross"
          title={failure.kind === "unreachable" ? text.notDone : failure.message || text.failureTitle[failure.kind]}
        >
          {failure.kind === "unreachable" ? <p>{text.notDoneAdvice}</p> : advice && <p>{advice}</p>}
          {failure.reason !== "" && (
            <p>
              <code>{failure.reason}</code>
            </p>
          )}
        </Notice>
      )}
    </div>
  );
}

/** Actions are the buttons of a page, with the failure of the last one below them. */
export function Actions({ label, failure, children }: { label: string; failure?: Failure; children: ReactNode }) {
  return (
    <div className={styles.actions}>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a row that wraps */}
      <div className={styles.buttons} role="group" aria-label={label}>
        {children}
      </div>
      <ActionFailure failure={failure} />
    </div>
  );
}

/** Step is an action that a person agrees to in a dialog. */
export interface Step {
  id: string;
  title: string;
  /** What the button says that does it. */
  verb: string;
  isDangerous?: boolean;
  /** What it will do. */
  body: ReactNode;
  /** What the person has to type before, and why: where one press would be too little for what goes. */
  typed?: { text: string; help: string };
  /** Why it cannot be done yet: what the body asks for is missing. */
  refused?: string | undefined;
  /** What the button says while there is no reason. Without it a reason is optional. */
  needsReason?: string;
  /** The command line that does the same, without its reason. */
  command: string;
  /** Names the draft of the reason, where the command changes while the dialog is open. */
  draft?: string;
  /** Does it. The options state the reason, which is also the second argument. */
  act: (options: CallOptions, reason: string) => Promise<string>;
}

/** Returns how many bytes a text is in a header, where the hub bounds it. */
const bytes = (value: string) => new TextEncoder().encode(value).length;

/** StepDialog shows what an action will do, asks why, and does it. It stays open while the hub refuses. */
export function StepDialog({ step, onClose }: { step: Step | undefined; onClose: () => void }) {
  // The dialog of the step before leaves the page with its content.
  return step ? <OpenStep key={step.id} step={step} onClose={onClose} /> : null;
}

const longestReason = 500;

function OpenStep({ step, onClose }: { step: Step; onClose: () => void }) {
  const draft = useDraft<string>(step.draft ?? step.command);
  const [reason, setReason] = useState(draft.found ?? "");
  const { run, running, failure } = useAction();
  const [typed, setTyped] = useState("");
  const stated = reason.trim();
  const confirm = async () => {
    if (await run(step.id, () => step.act(stating(reason), stated))) onClose();
  };
  return (
    <Dialog
      title={step.title}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button
            kind={step.isDangerous ? "danger" : "primary"}
            busy={running !== undefined}
            refused={
              step.refused ??
              (stated === "" ? step.needsReason : undefined) ??
              (step.typed && typed.trim() !== step.typed.text ? text.typeFirst(step.typed.text) : undefined)
            }
            onClick={() => void confirm()}
          >
            {step.verb}
          </Button>
        </>
      }
    >
      <div className={styles.step}>
        {step.body}
        {step.typed && (
          <TextField
            label={text.typeFirst(step.typed.text)}
            help={step.typed.help}
            value={typed}
            most={longestReason}
            onChange={setTyped}
          />
        )}
        <TextField
          label={step.needsReason ? text.whyRequired : text.why}
          help={text.whyHelp}
          value={reason}
          most={longestReason}
          onChange={(next) => {
            if (bytes(next) > longestReason) return;
            setReason(next);
            draft.keep(next);
          }}
        />
        <Command label={text.sameAs}>
          {stated === "" ? step.command : `${step.command} --reason ${shellQuote(stated)}`}
        </Command>
        <ActionFailure failure={failure} />
      </div>
    </Dialog>
  );
}
