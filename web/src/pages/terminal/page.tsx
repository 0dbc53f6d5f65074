// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { createClient } from "@connectrpc/connect";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
import { Facts } from "../../fleet/page.tsx";
import { ReachNotice } from "../../fleet/reach.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { useTerminalRight } from "../../fleet/terminal.tsx";
import { type GetRecordingRulesResponse, TunnelService } from "../../gen/leat/tunnel/v1/tunnel_pb";
import { useHub } from "../../hub/hub.ts";
import { useLive } from "../../hub/live.ts";
import { readJson } from "../../kube/api.ts";
import { type Ending, runProgram, type Session } from "../../kube/exec.ts";
import { clusterPath } from "../../kube/names.ts";
import { resourcePath } from "../../kube/path.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { Dialog } from "../../parts/overlay.tsx";
import { Screen } from "../../parts/screen.tsx";
import { Empty, Notice } from "../../parts/states.tsx";
import type { Screen as Made } from "../../parts/xterm.ts";
import type { TerminalSearch } from "../../shell/router.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { size as sizeText, text } from "../../text/en.ts";
import { terminal } from "../../text/terminal.ts";
import styles from "./page.module.css";

const route = getRouteApi("/terminal/$");

/** TerminalPage is a program in a container, in a window of its own. Nothing runs before the person starts it. */
export function TerminalPage() {
  const { _splat: cluster = "" } = route.useParams();
  const { namespace, pod, container, command } = route.useSearch();
  useTitle(terminal.title(pod ?? ""));
  if (!namespace || !pod) {
    return (
      <Empty icon="search" title={terminal.noPod}>
        <p>{terminal.noPodBody}</p>
      </Empty>
    );
  }
  // Another pod is another terminal.
  return (
    <Terminal
      key={JSON.stringify([cluster, namespace, pod])}
      cluster={cluster}
      namespace={namespace}
      pod={pod}
      container={container ?? ""}
      shell={command ?? "sh"}
    />
  );
}

type State =
  | { is: "asked" }
  | { is: "connecting" | "running"; attempt: number }
  /** Without an ending, the person ended it. */
  | { is: "over"; attempt: number; ending: Ending | undefined };

interface Chosen {
  cluster: string;
  namespace: string;
  pod: string;
  container: string;
  shell: string;
}

function Terminal(chosen: Chosen) {
  const { cluster, namespace, pod, container, shell } = chosen;
  const hub = useHub();
  const path = clusterPath(cluster, "");
  const { isKnown, refused } = useTerminalRight(cluster, namespace);
  const rules = useLive(
    "recording rules",
    () => ({
      load: (signal) => createClient(TunnelService, hub.tunnel).getRecordingRules({}, { signal }),
    }),
    hub.surroundings,
    true,
  );
  const [state, setState] = useState<State>({ is: "asked" });
  const [skipped, setSkipped] = useState(0);
  const [paste, setPaste] = useState<string>();
  const [isReader, setReader] = useState(false);
  const screen = useRef<Made>(undefined);
  const session = useRef<Session>(undefined);
  const page = useRef<HTMLDivElement>(null);

  const isRunning = state.is === "running" || state.is === "connecting";
  useEffect(() => {
    if (!isRunning) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isRunning]);
  useEffect(() => () => session.current?.end(), []);

  const start = () => {
    setSkipped(0);
    setState({ is: "connecting", attempt: "attempt" in state ? state.attempt + 1 : 1 });
  };
  const run = (made: Made, attempt: number) => {
    screen.current = made;
    made.setReader(isReader);
    const target = { cluster: path, namespace, pod, container, command: [shell] };
    let missed = 0;
    session.current = runProgram(hub.clusters, target, made.size(), {
      onOpen() {
        setState({ is: "running", attempt });
        made.focus();
      },
      onOutput(bytes) {
        if (made.write(bytes)) return;
        missed += bytes.length;
        setSkipped(missed);
      },
      onEnd(ending) {
        made.close();
        setState({ is: "over", attempt, ending });
      },
    });
  };
  const end = () => {
    if (!("attempt" in state)) return;
    session.current?.end();
    screen.current?.close();
    setState({ is: "over", attempt: state.attempt, ending: undefined });
  };
  const onPaste = useCallback((pasted: string) => {
    if (pasted.includes("\n")) setPaste(pasted);
    else screen.current?.paste(pasted);
  }, []);

  const isAskedFor = rules.value !== undefined || rules.failure !== undefined;
  const mayStart = refused ?? (isAskedFor ? undefined : terminal.rules.loading);
  const kubectl = [
    `kubectl exec -it ${shellQuote(pod)} -n ${shellQuote(namespace)}`,
    container && `-c ${shellQuote(container)}`,
    `-- ${shell}`,
  ];
  return (
    <div className={styles.page} ref={page}>
      <div className={styles.head}>
        <div className={styles.name}>
          <h1>{pod}</h1>
          <p>
            {[cluster, namespace, container].filter(Boolean).join(" · ")}
            {rules.value?.output && <Badge tone="warn">{terminal.recorded}</Badge>}
            {isRunning && <span>{state.is === "running" ? terminal.leave : terminal.connecting}</span>}
          </p>
        </div>
        {isRunning && (
          <div className={styles.tools}>
            <label className={styles.check}>
              <input
                type="checkbox"
                checked={isReader}
                onChange={(event) => {
                  setReader(event.target.checked);
                  screen.current?.setReader(event.target.checked);
                }}
              />
              {terminal.reader}
            </label>
            <Button icon="close" onClick={end}>
              {terminal.end}
            </Button>
          </div>
        )}
      </div>
      {!isRunning && (
        <div className={styles.ask}>
          <div role="status">{state.is === "over" && <Ended ending={state.ending} />}</div>
          {isKnown && refused !== undefined && <Notice tone="idle" icon="lock" title={refused} />}
          {(state.is === "asked" || !rules.value) && (
            <Rules value={rules.value} isFailed={rules.failure !== undefined} />
          )}
          <Choices
            {...chosen}
            path={path}
            refused={mayStart}
            verb={state.is === "over" ? terminal.startAgain : terminal.start}
            onStart={start}
          />
        </div>
      )}
      {skipped > 0 && <Notice tone="warn" icon="alert" title={terminal.skipped(sizeText(skipped))} />}
      {state.is === "asked" && !(isKnown && refused !== undefined) && (
        <div className={styles.before}>
          <Facts
            facts={[
              [terminal.cluster, cluster],
              [terminal.namespace, namespace],
              [terminal.pod, pod],
              [terminal.container, container || terminal.defaultContainer],
              [terminal.shell, shell],
            ]}
          />
          <p>{terminal.keys}</p>
        </div>
      )}
      {"attempt" in state && (
        <div className={styles.screen}>
          <Screen
            key={state.attempt}
            options={{
              label: terminal.screen,
              onInput: (typed) => session.current?.type(typed),
              onInputBytes: (typed) => session.current?.typeBytes(typed),
              onPaste,
              onSize: (next) => session.current?.resize(next),
              onLeave: () => page.current?.querySelector("button")?.focus(),
            }}
            onReady={(made) => run(made, state.attempt)}
          />
        </div>
      )}
      <Command label={text.sameAs}>{kubectl.filter(Boolean).join(" ")}</Command>
      <PasteDialog
        pasted={paste}
        onClose={(isAgreed) => {
          if (isAgreed && paste !== undefined) screen.current?.paste(paste);
          setPaste(undefined);
          screen.current?.focus();
        }}
      />
    </div>
  );
}

function Rules({ value, isFailed }: { value: GetRecordingRulesResponse | undefined; isFailed: boolean }) {
  const { rules } = terminal;
  if (!value) return <Notice tone="idle" icon="unknown" title={isFailed ? rules.unknown : rules.loading} />;
  if (!value.output) return <Notice tone="idle" icon="info" title={rules.none} />;
  return (
    <Notice tone="warn" icon="alert" title={value.input ? rules.input : rules.output}>
      <p>
        {rules.who} {value.required && rules.required}
      </p>
    </Notice>
  );
}

const shells = ["sh", "bash"] as const;

/** The names of containers come from the cluster, and a page shows so many. */
const mostContainers = 100;

interface RawPod {
  spec?: Partial<Record<"containers" | "initContainers" | "ephemeralContainers", { name?: string }[]>>;
}

function Choices({
  cluster,
  path,
  namespace,
  pod,
  container,
  shell,
  refused,
  verb,
  onStart,
}: Chosen & { path: string; refused: string | undefined; verb: string; onStart: () => void }) {
  const hub = useHub();
  const navigate = useNavigate();
  const { value } = useLive(
    `containers ${pod}`,
    () => ({
      async load(signal) {
        const { spec } = await readJson<RawPod>(hub.clusters, path, resourcePath("v1", namespace, "pods", pod), signal);
        const all = [...(spec?.containers ?? []), ...(spec?.ephemeralContainers ?? [])];
        return all
          .map(({ name }) => String(name ?? ""))
          .filter(Boolean)
          .slice(0, mostContainers);
      },
    }),
    hub.surroundings,
    true,
  );
  const known = value ?? [];
  const names = container === "" || known.includes(container) ? known : [container, ...known];
  const change = (next: TerminalSearch) =>
    void navigate({
      to: "/terminal/$",
      params: { _splat: cluster },
      search: (now) => ({ ...now, ...next }),
      replace: true,
    });
  return (
    <form
      className={styles.choices}
      onSubmit={(event) => {
        event.preventDefault();
        if (refused === undefined) onStart();
      }}
    >
      <label>
        {terminal.container}
        <select value={container} onChange={(event) => change({ container: event.target.value })}>
          <option value="">{terminal.defaultContainer}</option>
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        {terminal.shell}
        <select value={shell} onChange={(event) => change({ command: event.target.value === "bash" ? "bash" : "sh" })}>
          {shells.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      </label>
      <Button kind="primary" type="submit" refused={refused}>
        {verb}
      </Button>
    </form>
  );
}

function wordsOf(ending: Ending | undefined): string {
  if (!ending) return terminal.ended;
  if (ending.is === "exited") return terminal.exited(ending.code);
  if (ending.is === "lost") return terminal.lost[ending.closed] ?? terminal.lostOther;
  return ending.is === "failed" ? terminal.failed : terminal.refused;
}

function Ended({ ending }: { ending: Ending | undefined }) {
  if (ending?.is === "refused" && ending.failure?.kind === "invalid") {
    return (
      <Notice tone="warn" icon="alert" title={terminal.refused}>
        <p>{ending.failure.message}</p>
      </Notice>
    );
  }
  if (ending?.is === "refused" && ending.failure) return <ReachNotice failure={ending.failure} />;
  const isBad = ending !== undefined && ending.is !== "exited";
  return (
    <Notice tone={isBad ? "warn" : "idle"} icon={isBad ? "alert" : "info"} title={wordsOf(ending)}>
      {ending?.is === "refused" && <p>{terminal.refusedBody}</p>}
      {ending?.is === "failed" && (
        <>
          <p>{ending.message}</p>
          {/not found|no such file/i.test(ending.message) && <p>{terminal.noShell}</p>}
        </>
      )}
    </Notice>
  );
}

const mostShown = 2000;

/** PasteDialog asks before several lines go to a shell. */
function PasteDialog({ pasted, onClose }: { pasted: string | undefined; onClose: (isAgreed: boolean) => void }) {
  if (pasted === undefined) return null;
  return (
    <Dialog
      title={terminal.paste.title(pasted.trimEnd().split("\n").length)}
      isOpen
      onClose={() => onClose(false)}
      actions={
        <>
          <Button onClick={() => onClose(false)}>{text.cancel}</Button>
          <Button kind="primary" onClick={() => onClose(true)}>
            {terminal.paste.verb}
          </Button>
        </>
      }
    >
      <p>{terminal.paste.body}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard */}
      <pre className={styles.pasted} tabIndex={0}>
        {pasted.slice(0, mostShown)}
      </pre>
      {pasted.length > mostShown && <p>{terminal.paste.more(pasted.length - mostShown)}</p>}
    </Dialog>
  );
}
