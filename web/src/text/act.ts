// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, number, text } from "./en.ts";

// The words of what a person does to services: agree to deletions, preview a ref, act on many, and look at the graph. They
// are a part of the catalog that is loaded with these parts, because the first page of most visits needs none of them.

export const act = {
  // Deletions that the agent's guard holds back.
  prune: {
    title: "Deletions that wait for a person",
    agreed: "A person has agreed to these deletions",
    agreedBody: "The agent deletes the objects at its next run. If others would go by then, it asks again.",
    stays:
      "Namespaces, CustomResourceDefinitions and PersistentVolumeClaims stay in the cluster anyway, unless the service's " +
      "spec.policy.deletion allows their deletion.",
    objects: "Objects that would go",
    unnamed: "The agent does not name the objects. The message says how many they are.",
    most: (n: number) => `The agent names ${number(n)} objects at most. The message says how many there are.`,
    confirm: "Confirm deletions",
    reading: "Reading the list",
    confirmTitle: (name: string) => `Delete these objects of ${name}`,
    verb: (n: number) => `Delete ${count(n, "object", "objects")}`,
    verbMany: "Delete the objects",
    body: "You agree to exactly this list. If the manifests change and others would go, the agent asks again.",
    read: (n: number) => `Read ${count(n, "object", "objects")} that would go.`,
    typeMany: "More than three objects go, so a single press is too little.",
    typeProtected: (cluster: string) => `The cluster ${cluster} is protected by the label leat.dev/protected.`,
    typeUnknown: (cluster: string) => `It is not known whether the cluster ${cluster} is protected.`,
    moved: "The list has changed. Nothing was deleted. Look at it again.",
    gone: "Nothing waits any more.",
    done: "Agreed. The agent deletes the objects at its next run.",
  },

  // What a service would be at another ref of its repository.
  preview: {
    title: "Preview of another ref",
    ref: "Ref",
    refHelp:
      "A branch, tag:NAME, a commit id, commit:SHORT or refs/…. Nothing is applied, and the service stays as it is.",
    repository: "Repository",
    show: "Preview",
    back: "Back to what it follows",
    resolving: "The hub fetches the ref.",
    at: (ref: string) => `What the service would be at ${ref}:`,
    until: "The cluster's agent may download this content. That ends",
    wouldChange: "What the ref would change",
    noneBody: "With this ref the cluster would have what it has now.",
    noHooks: "Hooks are not shown.",
    same: (n: number) => `${number(n)} the same`,
    nothing:
      "The hub delivers nothing for this ref: a source was never resolved, or the cluster's agent is too old for it.",
  },

  // The graph of a service's objects.
  graph: {
    views: "Views of the objects",
    outline: "Outline",
    graph: "Graph",
    label: (name: string) => `Graph of the objects of ${name}`,
    help: "The outline has the same as text. Arrow keys move through the objects, + and - change the size.",
    larger: "Larger",
    smaller: "Smaller",
    usual: "Usual size",
    sizeOf: (percent: number) => `${number(percent)} %`,
    smallest: "It is as small as it can be.",
    largest: "It is as large as it can be.",
    group: (kind: string, n: number) => `${kind} × ${number(n)}`,
  },

  // How long a pause lasts.
  pause: {
    length: "How long",
    lengths: {
      0: "Until somebody resumes it",
      1: "An hour",
      8: "8 hours",
      24: "A day",
      168: "A week",
    },
    end: "Then it ends by itself.",
    noEnd: "Such a pause is easily forgotten.",
    isEnding: "Its owner has paused it. The pause ends by itself",
    hasEnded: "It follows its sources. The pause ended by itself",
  },
  pin: {
    forever: "Until somebody releases it",
    noEnd: "Such a pin is easily forgotten.",
    isEnding: "The pin ends by itself",
  },

  // What a person does to many services.
  bulk: {
    label: "What to do with the selection",
    selected: (n: number, kind: string) => `${text.count(n, kind)} selected`,
    clear: "Clear the selection",
    verbs: { sync: "Sync", pause: "Pause", resume: "Resume" },
    ofClusters: "It is done to the services of these clusters.",
    reading: "Reading the selection",
    read: (n: number) => `Read ${text.count(n, "Service")}.`,
    titles: {
      sync: (n: number) => `Sync ${text.count(n, "Service")}`,
      pause: (n: number) => `Pause ${text.count(n, "Service")}`,
      resume: (n: number) => `Resume ${text.count(n, "Service")}`,
    },
    bodies: {
      sync: "The hub fetches their repositories, and their agents apply them, even if nothing has changed.",
      pause: "Their objects stay as they are. Commits and edits wait until the pause ends.",
      resume: "What has changed in the meantime is applied at once.",
    },
    inClusters: (n: number) => `They are in ${text.count(n, "Cluster")}.`,
    refused: (n: number, verb: string) =>
      `${count(n, "other is", "others are")} left out, because no binding lets you ${verb} ${n === 1 ? "it" : "them"}.`,
    already: {
      sync: () => "",
      pause: (n: number) => `${count(n, "other is", "others are")} paused already.`,
      resume: (n: number) => `${count(n, "other is", "others are")} not paused.`,
    },
    none: "Nothing is left to do.",
    moved: (seen: number, now: number) =>
      `The selection has changed: it was ${text.count(seen, "Service")}, and now it is ${number(now)}. Nothing was done yet.`,
    movedSame: "Other services match now than before. Nothing was done yet.",
    tooMany: (n: number, most: number) =>
      `These are ${text.count(n, "Service")}. At most ${number(most)} are done at once: narrow the filter.`,
    tooManyClusters: (n: number, most: number) =>
      `These are ${text.count(n, "Cluster")}. At most ${number(most)} are done at once: narrow the filter.`,
    pageDoes: "This page asks the hub for one service after another, so it has to stay open until it is done.",
    begun: { sync: "Syncing.", pause: "Pausing.", resume: "Resuming." },
    progress: (done: number, failed: number, left: number) =>
      `${number(done)} done, ${number(failed)} failed, ${number(left)} left`,
    waits: "The hub asks to wait. It goes on by itself.",
    stop: "Stop",
    stopping: "Stopping",
    ended: (done: number) => `${text.count(done, "Service")} done.`,
    endedBadly: (done: number, failed: number) =>
      `${text.count(done, "Service")} done, ${number(failed)} failed. Those that failed are still selected.`,
    stopped: (done: number, left: number) =>
      `Stopped. ${text.count(done, "Service")} done; ${number(left)} are still selected.`,
    failures: "What failed",
    moreFailures: (n: number) => `and ${number(n)} more, which are selected, too`,
    close: "Close",
    leaveTitle: "Leave, and stop here?",
    leaveBody: (left: number) => `${text.count(left, "Service")} would be left as they are. What is done stays done.`,
    leave: "Leave and stop",
    stay: "Stay",
  },
};
