// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { Actions, useAction } from "../../fleet/action.tsx";
import { ms, reasonName } from "../../fleet/columns.tsx";
import { CommitLink } from "../../fleet/commit.tsx";
import { ObjectHead } from "../../fleet/head.tsx";
import { ImageState, lookOf, ruleOf } from "../../fleet/images.tsx";
import { Card, Facts, Page } from "../../fleet/page.tsx";
import { refIn, shellQuote } from "../../fleet/refs.ts";
import { useRights } from "../../fleet/rights.ts";
import { type ImagePolicy, ImagePolicyService } from "../../gen/leat/fleet/v1/image_policy_pb";
import { useHub } from "../../hub/hub.ts";
import { type Link as LinkState, useLive } from "../../hub/live.ts";
import { rowSource, splitRef } from "../../hub/object.ts";
import { Age } from "../../parts/age.tsx";
import { Button } from "../../parts/button.tsx";
import { ExternalLink } from "../../parts/link.tsx";
import { ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { condition } from "../../text/condition.ts";
import { text } from "../../text/en.ts";
import { images as words } from "../../text/images.ts";
import styles from "./page.module.css";

const route = getRouteApi("/image-policies/$");
const verbs = ["sync"] as const;

/** ImagePolicyPage is one image policy: what it selects and by which rule, and what it writes. */
export function ImagePolicyPage() {
  const hub = useHub();
  const { _splat: ref = "" } = route.useParams();
  const { value, failure, link, store } = useLive(
    `image policy ${ref}`,
    () => rowSource(hub, "ImagePolicy", ref),
    hub.surroundings,
  );
  useTitle(ref);
  if (failure && (!value || link === "stopped")) {
    return (
      <ErrorState failure={failure} onRetry={store.retry} command={`leat get imagepolicy ${shellQuote(ref)} -o yaml`} />
    );
  }
  if (link === "loading") return <Skeleton lines={8} />;
  const object = value?.document?.object;
  if (object?.case !== "imagePolicy") {
    return (
      <ErrorState
        failure={{ kind: "missing", reason: "", message: "", metadata: {} }}
        command="leat get imagepolicies"
      />
    );
  }
  return <Shown name={ref} policy={object.value} since={ms(value?.since)} link={link} />;
}

function Shown({
  name,
  policy,
  since,
  link,
}: {
  name: string;
  policy: ImagePolicy;
  since: number | undefined;
  link: LinkState;
}) {
  const { spec, status } = policy;
  const { problem } = status ?? {};
  return (
    <Page>
      <ObjectHead
        kind={{ to: "/image-policies", title: text.imagePolicies }}
        name={name}
        phase=""
        state={{ show: <ImageState policy={policy} />, tone: lookOf(policy).tone }}
        since={ms(problem?.since) ?? since ?? ms(status?.lookedAt)}
        link={link}
        problem={problem ? { reason: reasonName(problem.reason), message: problem.message } : undefined}
        actions={<PolicyActions name={name} policy={policy} />}
        command={`leat get imagepolicy ${shellQuote(name)} -o yaml`}
      />
      {spec?.suspended && <Notice tone="idle" icon="pause" title={words.suspendedTitle} />}
      {spec?.description && <p>{spec.description}</p>}
      <div className={styles.cards}>
        <Selected policy={policy} />
        <Rule name={name} policy={policy} />
        <Write name={name} policy={policy} />
      </div>
    </Page>
  );
}

function PolicyActions({ name, policy: { spec, status } }: { name: string; policy: ImagePolicy }) {
  const hub = useHub();
  const { run, running, failure } = useAction();
  const [request, setRequest] = useState(0n);
  const refused = useRights({ kind: "ImagePolicy", resource: "imagepolicies", ref: name, ...splitRef(name) }, verbs);
  const isLooking = request > (status?.observedRequest ?? 0n);
  return (
    <Actions label={text.actions} {...(failure && { failure })}>
      <Button
        kind="primary"
        busy={running === "sync" || isLooking}
        refused={refused("sync") ?? (spec?.suspended ? words.syncSuspended : undefined)}
        onClick={() =>
          void run("sync", async () => {
            const answer = await hub.call(ImagePolicyService).syncImagePolicy({ name });
            setRequest(answer.request);
            return words.syncAsked;
          })
        }
      >
        {isLooking ? words.syncing : words.sync}
      </Button>
    </Actions>
  );
}

function Selected({ policy: { status } }: { policy: ImagePolicy }) {
  return (
    <Card title={words.selected}>
      <Facts
        facts={[
          [
            words.image,
            <span key="image" className={styles.long}>
              {status?.image || words.noneSelected}
            </span>,
          ],
          status !== undefined && status.tag !== "" && [words.tag, <code key="tag">{status.tag}</code>],
          status !== undefined &&
            status.digest !== "" && [
              words.digest,
              <code key="digest" className={styles.long}>
                {status.digest}
              </code>,
            ],
          status?.selectedAt !== undefined && [words.since, <Age key="since" at={ms(status.selectedAt)} />],
          [words.looked, status?.lookedAt ? <Age key="looked" at={ms(status.lookedAt)} /> : condition.never],
        ]}
      />
    </Card>
  );
}

function Rule({ name, policy }: { name: string; policy: ImagePolicy }) {
  const { spec } = policy;
  const repository = refIn(splitRef(name).project, spec?.repository ?? "");
  return (
    <Card title={words.rule}>
      <Facts
        facts={[
          [
            words.tagsOf,
            <Link key="repository" to="/repositories/$" params={{ _splat: repository }}>
              {spec?.repository}
            </Link>,
          ],
          [
            words.rule,
            <span key="rule" className={styles.long}>
              {ruleOf(policy).join(", ")}
            </span>,
          ],
          [words.pins, spec?.pinDigest ? words.yes : words.no],
        ]}
      />
    </Card>
  );
}

function Write({ name, policy: { spec, status, metadata } }: { name: string; policy: ImagePolicy }) {
  const { project, name: local } = splitRef(name);
  const write = spec?.write;
  if (!write) {
    return (
      <Card title={words.write}>
        <p className={styles.words}>{words.nothing}</p>
      </Card>
    );
  }
  const repository = refIn(project, write.repository);
  return (
    <Card title={words.write}>
      <Facts
        facts={[
          [
            text.column.repository,
            <Link key="repository" to="/repositories/$" params={{ _splat: repository }}>
              {write.repository}
            </Link>,
          ],
          [words.branch, <code key="branch">{write.branch}</code>],
          [words.folder, <code key="folder">{write.path || "."}</code>],
          [words.by, write.pullRequest ? words.byPullRequest : words.byCommit],
          [words.marks, words.marksOf(status?.marks ?? 0)],
          status !== undefined &&
            status.commit !== "" && [
              words.commit,
              <CommitLink key="commit" repository={repository} commit={status.commit} />,
            ],
          status !== undefined &&
            status.pullRequestUrl !== "" && [
              words.pullRequest,
              <ExternalLink key="request" href={status.pullRequestUrl} />,
            ],
        ]}
      />
      {status?.marks === 0 && (
        <p className={styles.words}>
          {words.markHelp} <code>{words.notMarked(`${metadata?.project || project || "default"}/${local}`)}</code>
        </p>
      )}
    </Card>
  );
}
