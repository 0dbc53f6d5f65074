// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { times } from "./en.ts";

// The words of a repository's webhooks. They are a part of the catalog that is loaded with its page.

export const webhook = {
  title: "Webhook",
  body: "With a webhook a push is fetched within about a second. Without one it is fetched at the next poll.",
  setUp: "Set up a webhook",
  hide: "Hide the steps",
  choose: "Choose where the repository is",
  secret:
    "Make a secret. Enter it at the host, and as spec.webhookSecret in the repository's document. " +
    "It has 16 bytes or more, and the hub never shows it again.",
  secretOfHub: "A repository without a secret of its own takes that of the hub, if the hub has one.",
  address: "Address",
  noAddress: "The hub does not know its public address. Replace … with the one at which the host reaches it.",
  waiting: "Waiting for a delivery …",
  waitingAdvice: "Push a commit, or use the host's test. It appears here within seconds.",
  arrived: "A delivery has arrived",
  none: "No webhook has arrived in the last 30 days.",
  unknown: "The last deliveries cannot be read now",
  old: (at: number) => `The deliveries are those of ${times.format(at)}`,
  received: "Received",
  host: "From",
  outcome: "Outcome",
  refs: "Refs",
  hosts: {
    github: {
      name: "GitHub",
      where: "In the repository's Settings, choose Webhooks, then Add webhook.",
      form: [
        ["Content type", "application/json"],
        ["Secret", "the secret of step 2"],
        ["Events", "Just the push event"],
      ],
    },
    gitlab: {
      name: "GitLab",
      where: "In the project's Settings, choose Webhooks, then Add new webhook.",
      form: [
        ["Secret token", "the secret of step 2"],
        ["Trigger", "Push events and Tag push events"],
      ],
    },
    gitea: {
      name: "Gitea, Forgejo",
      where: "In the repository's Settings, choose Webhooks, then Add webhook, of type Gitea or Forgejo.",
      form: [
        ["HTTP method", "POST"],
        ["Content type", "application/json"],
        ["Secret", "the secret of step 2"],
        ["Events", "Push, create and delete"],
      ],
    },
    bitbucket: {
      name: "Bitbucket Cloud",
      where: "In the repository's settings, choose Webhooks, then Add webhook.",
      form: [
        ["Secret", "the secret of step 2"],
        ["Triggers", "Repository push"],
      ],
    },
    "bitbucket-server": {
      name: "Bitbucket Data Center",
      where: "In the repository's settings, choose Webhooks, then Create webhook.",
      form: [
        ["Secret", "the secret of step 2"],
        ["Events", "Repository: Push"],
      ],
    },
    "azure-devops": {
      name: "Azure DevOps",
      where: "In the project's settings, choose Service hooks, then Web Hooks. The address has to begin with https.",
      form: [
        ["Trigger", "Code pushed"],
        ["User name", "any"],
        ["Password", "the secret of step 2"],
        ["Resource details", "All"],
      ],
    },
    distribution: {
      name: "OCI registry",
      where: "In the registry's configuration, add an endpoint of notifications. The address has to begin with https.",
      form: [["Header", "Authorization, with the secret of step 2 as a bearer token"]],
    },
    harbor: {
      name: "Harbor",
      where: "In the project, choose Webhooks, then New webhook. The address has to begin with https.",
      form: [
        ["Notify type", "http, with the default payload format"],
        ["Events", "Artifact pushed and Artifact deleted"],
        ["Auth header", "the secret of step 2"],
      ],
    },
    generic: {
      name: "Anything else",
      where: "Send a signed POST after each push. docs/guides/webhooks.md has an example with curl.",
      form: [
        ["Body", '{"url": "the URL of the repository"}'],
        ["X-Leat-Timestamp", "seconds since 1970"],
        ["X-Leat-Signature-256", "sha256= and the HMAC of TIMESTAMP.BODY, in hexadecimal digits"],
      ],
    },
  } satisfies Record<string, { name: string; where: string; form: [string, string][] }>,
  // By the number of the outcome: a word, and what it means or what helps.
  outcomes: {
    1: ["Accepted", "The repository is fetched."],
    2: ["Test", "The connection and the secret are right. Pushes arrive in the same way."],
    3: ["Ignored", "It is not about branches or tags. Send push events alone."],
    4: ["Ignored", "It names the URL of another repository. Compare it with the URL in this one's spec."],
    5: ["Repeated", "It arrived before, and was fetched then."],
    6: ["Refused", "Its body is not what this host sends. Compare the address and the content type."],
    7: ["Refused", "It carries no secret. Enter the secret at the host."],
    8: ["Refused", "It has another secret. Enter the same one at the host and in the repository's spec."],
    9: ["Refused", "The repository has no secret yet, and neither has the hub. Set spec.webhookSecret."],
    10: ["Refused", "It is too large. The next poll finds what it is about."],
    11: ["Refused", "Too many arrived at once. The next poll finds what it is about."],
    12: ["Incomplete", "The connection ended before all of it had arrived."],
  } as Record<number, [word: string, meaning: string]>,
};
