// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { ms } from "../../fleet/columns.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { shellQuote } from "../../fleet/refs.ts";
import { hasEnded, needsPerson, RolloutProgress, RolloutState, toneOfRollout } from "../../fleet/rollouts.tsx";
import { type Rollout, type RolloutPolicy, RolloutService } from "../../gen/leat/fleet/v1/rollout_pb";
import { useAnswer } from "../../hub/answer.ts";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, useLive } from "../../hub/live.ts";
import { rowSource, splitRef } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { delivery } from "../../text/delivery.ts";
import { text } from "../../text/en.ts";
import { RolloutActions } from "./actions.tsx";
import { readRollout } from "./members.ts";
import styles from "./page.module.css";
import { Change, History, Members, Planned, Policy, Waves } from "./parts.tsx";

const route = getRouteApi("/rollouts/$");

/** RolloutPage is one policy with a rollout as it goes: what holds it, how far each wave is, and which services have failed. */
export function RolloutPage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `rollout policy ${ref}`,
    () => rowSource(hub, "RolloutPolicy", ref),
    hub.surroundings,
  );
  useTitle(ref);
  if (failure && (!value || link === "stopped")) {
    return <ErrorState failure={failure} onRetry={store.retry} command={`leat rollout status ${shellQuote(ref)}`} />;
  }
  if (link === "loading") return <Skeleton lines={8} />;
  const object = value?.document?.object;
  if (object?.case !== "rolloutPolicy") {
    return (
      <ErrorState
        failure={{ kind: "missing", reason: "", message: "", metadata: {} }}
        command="leat get rolloutpolicies"
      />
    );
  }
  return <Shown name={ref} policy={object.value} since={ms(value?.since)} link={link} />;
}

/** Returns a text that differs whenever the rollout does, so that its members are read again then. */
const versionOf = (rollout: Rollout | undefined): string =>
  rollout
    ? [
        rollout.number,
        rollout.state,
        rollout.wave,
        rollout.arrived,
        rollout.failed,
        rollout.unavailable,
        rollout.waitsFor,
        ...rollout.waves.map((wave) => `${wave.arrived} ${wave.approvedBy.length}`),
      ].join()
    : "none";

function Shown({
  name,
  policy,
  since,
  link,
}: {
  name: string;
  policy: RolloutPolicy;
  since: number | undefined;
  link: LinkState;
}) {
  const hub = useHub();
  const { number } = route.useSearch();
  // How often the person has acted: what they did is read at once, and not with the stream's next look.
  const [acts, setActs] = useState(0);
  const latest = policy.status?.latest;
  const { project } = splitRef(name);
  const wanted = BigInt(number ?? 0);
  const { value: detail, ...asked } = useAnswer(
    `rollout ${name} ${wanted}`,
    `${versionOf(latest)} ${acts}`,
    async (signal) => (latest || number ? readRollout(hub, name, wanted, signal) : undefined),
    hub.surroundings,
  );
  const history = useAnswer(
    `rollouts ${name}`,
    `${latest?.number} ${latest?.state}`,
    async (signal) => (await hub.call(RolloutService).listRollouts({ name }, { signal })).rollouts,
    hub.surroundings,
  );
  // The policy's status has the latest rollout until the one that was asked for is read.
  const rollout = detail?.rollout ?? (number ? undefined : latest);
  const command = `leat rollout status ${shellQuote(name)}${number ? ` --number ${number}` : ""}`;
  const isLatest = rollout !== undefined && rollout.number === latest?.number;
  const at =
    rollout && (hasEnded(rollout) ? ms(rollout.endedAt) : (needsPerson(rollout) && since) || ms(rollout.startedAt));
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/rollouts", title: text.rollouts }}
        name={name}
        phase=""
        state={{ show: <RolloutState rollout={rollout} />, tone: toneOfRollout(rollout) }}
        since={at}
        link={link}
        problem={policy.status?.problem && { reason: "ROLLOUT_TOO_LARGE", message: policy.status.problem.message }}
        facts={rollout && <span>{delivery.rollout.numbered(rollout.number)}</span>}
        actions={
          rollout &&
          isLatest && (
            <RolloutActions name={name} policy={policy} rollout={rollout} onDone={() => setActs((n) => n + 1)} />
          )
        }
        command={command}
      />
      {rollout && latest && !isLatest && (
        <Notice tone="idle" icon="clock" title={delivery.rollout.older(latest.number)}>
          <p>
            <Link to="/rollouts/$" params={{ _splat: name }} activeOptions={{ exact: true }}>
              {delivery.rollout.toLatest}
            </Link>
          </p>
        </Notice>
      )}
      {rollout && <Held rollout={rollout} />}
      {policy.spec?.description && <p>{policy.spec.description}</p>}
      <div className={styles.body}>
        <div className={styles.main}>
          {asked.failure && (!detail || asked.link === "stopped") ? (
            <ErrorState failure={asked.failure} onRetry={asked.retry} command={command} />
          ) : !rollout ? (
            asked.link === "loading" ? (
              <Skeleton lines={8} />
            ) : (
              <>
                <div className={styles.none}>
                  <Empty icon="rollout" title={delivery.rollout.noneYet}>
                    <p>{delivery.rollout.noneYetBody}</p>
                  </Empty>
                </div>
                <Planned policy={policy} />
              </>
            )
          ) : (
            <>
              <Waves rollout={rollout} policy={policy} stages={detail?.stages} />
              {detail ? <Members detail={detail} name={name} project={project} /> : <Skeleton lines={6} />}
            </>
          )}
        </div>
        <div className={styles.side}>
          {rollout && <Change project={project} rollout={rollout} history={history.value ?? []} />}
          {rollout && <Counts rollout={rollout} />}
          <Policy policy={policy} />
          {(history.value?.length ?? 0) > 1 && rollout && (
            <History name={name} rollouts={history.value ?? []} shown={rollout.number} />
          )}
        </div>
      </div>
    </Page>
  );
}

/** Held is what the rollout waits for, or why it ended, in the hub's words. */
function Held({ rollout }: { rollout: Rollout }) {
  const words = rollout.why || rollout.waitsFor;
  if (words === "") {
    return hasEnded(rollout) ? null : <p className={styles.quiet}>{delivery.rollout.nothingHolds}</p>;
  }
  const tone = toneOfRollout(rollout);
  const until = ms(rollout.waitsUntil);
  return (
    <Notice
      tone={tone === "ok" ? "idle" : tone}
      icon={needsPerson(rollout) ? "person" : tone === "progress" ? "clock" : "alert"}
      title={text.sentence(words)}
    >
      {until !== undefined && <p>{delivery.rollout.until(until)}</p>}
    </Notice>
  );
}

function Counts({ rollout }: { rollout: Rollout }) {
  const words = delivery.rollout;
  return (
    <Card title={words.column.progress}>
      <Facts
        facts={[
          [words.members, <RolloutProgress key="progress" rollout={rollout} />],
          !hasEnded(rollout) && [words.unavailable, words.unavailableOf(rollout.unavailable, rollout.maxUnavailable)],
          [words.began, <Age key="began" at={ms(rollout.startedAt)} />],
          rollout.endedAt && [words.ended, <Age key="ended" at={ms(rollout.endedAt)} />],
        ]}
      />
    </Card>
  );
}
