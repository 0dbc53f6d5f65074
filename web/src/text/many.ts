// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, number } from "./en.ts";

// The words of a query in many clusters, and of the ways to it.

export const many = {
  title: "Resources of many clusters",
  question: "What to ask, and where",
  here: "Query in these clusters",
  others: "In other clusters",
  tooMany: (n: number, most: number) =>
    `At most ${number(most)} clusters are asked at once, and ${number(n)} are selected.`,
  allBut: "Select the clusters one by one, or all that a filter selects.",
  kind: "Kind",
  filter: "Clusters by filter",
  names: "Clusters by name",
  first: (asked: number, total: number) =>
    `The filter selects ${count(total, "cluster", "clusters")}. The first ${number(asked)} by name are asked.`,
  unasked: "Which kind, and in which clusters?",
  unaskedBody: (most: number) =>
    `Name a kind as kubectl does, such as pods or deployments.apps. Up to ${number(most)} clusters are asked, by their names or by a filter of the list of clusters.`,
  noClusters: "No cluster is selected",
  noClustersBody: "The filter selects none of the clusters that you may see.",
  badName: "This is not the name of a kind: write it as kubectl does, such as deployments.apps.",
  again: "Ask again",
  stop: "Stop",
  answers: "What each cluster answered",
  running: (done: number, of: number) => `${number(done)} of ${count(of, "cluster", "clusters")} answered.`,
  ended: (done: number, of: number, objects: number) =>
    `${number(done)} of ${count(of, "cluster", "clusters")} answered, with ${count(objects, "object", "objects")}.`,
  found: (n: number) => `${number(n)} have the text in their names.`,
  asOf: "Nothing is followed: the page shows what each cluster answered.",
  state: {
    waiting: "Waiting",
    asking: "Asking",
    done: "Answered",
    noKind: "Has no such kind",
    late: "Does not answer",
    refused: "Refused",
    failed: "Failed",
  },
  lateBody: "It has not answered within 20 seconds.",
  objects: (n: number, more: number) =>
    more === 0
      ? count(n, "object", "objects")
      : more < 0
        ? `the first ${number(n)} of more objects`
        : `the first ${number(n)} of ${count(n + more, "object", "objects")}`,
  cluster: "Cluster",
  none: "No object",
  noneBody: "No cluster that answered has an object like this.",
};
