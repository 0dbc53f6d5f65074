// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// The words of a service's page. They are a part of the catalog that is loaded with it.

export const serviceText = {
  overview: "Overview",
  revisions: "Revisions",
  sources: "Sources",
  objects: "Objects that need attention",
  noObjects: "Every object that the agent reports is as it should be.",
  noRevisions: "No revision yet",
  noRevisionsBody: "The first one appears when the cluster's agent reports.",
  driftTitle: "Changed by others",
  applied: "Applied",
  notApplied: "Not applied yet",
  instead: ", it has ",
  neverResolved: "never resolved",
  sync: "Sync now",
  pauseTitle: (name: string) => `Pause ${name}`,
  pauseBody: "Its objects stay as they are. Commits and edits wait until the pause ends.",
  rollback: "Roll back",
  rollbackTo: (revision: bigint) => `Roll back to revision ${revision}`,
  rollbackTitle: (revision: bigint) => `Roll back to revision ${revision}`,
  rollbackBody: (cluster: string) =>
    `${cluster} gets this content in place of the present one. Commits and rollouts pass the service by until you ` +
    "release it. Its spec and its configuration stay as they are.",
  rolledBack: (revision: bigint) => `Pinned to revision ${revision}.`,
  present: "Present",
  trace: "Trace",
  release: "Release the pin",
  releaseTitle: (revision: bigint) => `Release the pin to revision ${revision}`,
  releaseBody: "The service follows its sources again, or the rollouts of its policy, and gets what it has missed.",
  released: "Released. It follows its sources again.",
  outcome: { 0: "In progress", 1: "Healthy", 2: "Failed", 3: "Superseded" } as Record<number, string>,
};
