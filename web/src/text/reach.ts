// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count, number } from "./en.ts";

// The words of the resource browser of a cluster. Its pages load them.

export const reach = {
  title: "Resources",
  allResources: "All resources",

  // Which kinds a cluster has.
  kinds: {
    find: "Find a kind",
    placeholder: "Kind, short name or group",
    core: "Core",
    none: "No kind has this name",
    noneBody: "The cluster has no kind whose name, short name or group contains the text.",
    shown: (n: number, of: number) =>
      n === of ? count(n, "kind", "kinds") : `${number(n)} of ${count(of, "kind", "kinds")}`,
    missing: (groups: string) =>
      `These groups of the cluster's API do not answer, so their kinds are left out: ${groups}.`,
    wholeCluster: "whole cluster",
    mayNot: (resource: string, namespace: string) => `The cluster does not let you list ${resource} in ${namespace}.`,
  },

  // The objects of one kind.
  objects: {
    question: "Which objects",
    namespace: "Namespace",
    allNamespaces: "All namespaces",
    labels: "Labels",
    fields: "Fields",
    name: "Find by name",
    namePlaceholder: "A part of the name",
    badSelector: "The selector has a form that the cluster does not know.",
    age: "Age",
    column: { name: "Name", namespace: "Namespace" },
    terminating: "Terminating",
    count: (n: number) => count(n, "object", "objects"),
    first: (n: number, more: number) =>
      more < 0
        ? `The first ${number(n)} of more objects`
        : `The first ${number(n)} of ${count(n + more, "object", "objects")}`,
    found: (n: number, of: string) => `${number(n)} found. ${of}`,
    reading: "More are being read.",
    narrow: "The page holds no more. Narrow the list by a namespace or a selector; the command lists all.",
    restarted:
      "The list began again, because the cluster no longer knew the state of its first part. It changes much; narrow it if that lasts.",
    live: "Changes appear as they happen.",
    polled: "The cluster does not report changes of this kind, so it is read again now and then.",
    readAt: "Read",
    none: "No object",
    noneBody: "Nothing of this kind is there, or the question leaves it out.",
    noneNamed: "No object has this name",
    noneNamedBody: "None of those that were read contains the text in its name.",
    vanished: "The cluster has no such kind",
    vanishedBody: "It was removed, or it never was there. A definition that comes back starts without objects.",
    tryNamespace: "You may be allowed to list it in one namespace: choose one above.",
  },

  // One object.
  object: {
    overview: "Overview",
    logs: "Logs",
    events: "Events",
    yaml: "YAML",
    facts: "What it is",
    kind: "Kind",
    apiVersion: "Version",
    created: "Created",
    deleting: "Being deleted",
    waitsFor: (finalizers: string) => `It goes when these finalizers are done: ${finalizers}.`,
    service: "Service of Leat",
    owners: "Belongs to",
    managers: "Its fields are set by",
    manager: (name: string, isLeat: boolean) => (isLeat ? `${name} (Leat's agent)` : name),
    labels: "Labels",
    annotations: "Annotations",
    more: (n: number) => `${count(n, "more is", "more are")} in the YAML`,
    conditions: "Conditions",
    conditionColumns: ["Condition", "Status", "Reason", "Since"],
    eventColumns: ["Reason", "Message", "Times", "Last"],
    noEvents: "The cluster has noted nothing about it. Clusters forget events after an hour.",
    gone: "The cluster has no such object",
    goneBody: "It was deleted, or it never was there.",
    all: (kind: string) => `All ${kind}`,
    mayNot: (verb: string) => `The cluster does not let you ${verb} it.`,
    asking: "The cluster is asked what you may do.",
  },

  // The values of a Secret.
  secret: {
    title: "Values",
    masked:
      "Values are read one at a time, when you ask for one. Each is gone after a minute, or when the page is hidden.",
    noKeys: "The cluster does not say which keys it has.",
    reveal: (key: string) => `Show ${key}`,
    hide: (key: string) => `Hide ${key}`,
    gone: "The Secret no longer has this key.",
    columns: ["Key", "Value", ""],
    hidden: "hidden",
  },

  // The YAML of an object, and an edit of it.
  edit: {
    title: "YAML",
    label: (name: string) => `YAML of ${name}`,
    edit: "Edit",
    secret: "An edit would show all values of the Secret. Use the command line.",
    discard: "Discard",
    compare: "See what changes",
    back: "Edit further",
    apply: "Apply",
    takeOver: "Take these fields over",
    applied: (name: string) => `${name} was changed.`,
    managed: (service: string) =>
      `Leat's service ${service} applies this object. Change its source in Git to change it for good.`,
    unchanged: "The text changes nothing.",
    other: "The text names another object. Its version, kind, name and namespace stay.",
    objection: {
      tooLong: "The text is longer than a cluster takes.",
      tooDeep: "The text is nested too deep, or has too many aliases.",
      noObject: "The text is not an object.",
    },
    wrong: "The text cannot be read",
    difference: "What the cluster would store",
    same: "The cluster would store what it has.",
    tooFar: "The difference is too large to be shown.",
    conflicts: "Others have set these fields",
    conflictsBody: "If you take a field over, its manager and you both set it, and the one that writes last wins.",
    putBack: "Leat's agent will put these fields back.",
    theirs: "Theirs",
    yours: "Yours",
    noValue: "no value",
    kept: "These fields stay",
    keptBody: "An apply removes no field that others own. Set it to another value, or remove it with the command line.",
    keptBy: (field: string, managers: string) => (managers === "" ? field : `${field}, set by ${managers}`),
    changed: "It changed while you looked. See again what changes.",
  },

  // The deletion of an object.
  remove: {
    button: "Delete",
    title: (name: string) => `Delete ${name}?`,
    asking: "The cluster is asked whether it would delete it.",
    would: "The cluster would delete it. Nothing has been deleted yet.",
    again: (service: string) => `Leat's service ${service} applies this object, so Leat's agent will create it again.`,
    propagation: "What it owns",
    propagations: {
      Background: "is deleted after it",
      Foreground: "is deleted before it",
      Orphan: "stays",
    },
    type: (name: string) => `Type ${name} first`,
    typeHelp: "Much goes with it, or the cluster is protected.",
    done: (name: string) => `${name} is being deleted.`,
  },

  // A restart, a scale, an eviction.
  operate: {
    actions: "What you can do with it",
    verbs: { restart: "Restart", scale: "Scale", evict: "Evict" },
    titles: {
      restart: (name: string) => `Restart ${name}?`,
      scale: (name: string) => `Scale ${name}`,
      evict: (name: string) => `Evict ${name}?`,
    },
    mayNot: (reason: string) => `You may not do this: ${reason}`,
    mayNotHub: "your bindings do not allow it",
    mayNotCluster: "the cluster's RBAC does not allow it",
    reading: "The page reads what there is now.",
    asking: "The cluster is asked whether it would do this.",
    would: {
      restart: "The cluster would restart it. Nothing has been restarted yet.",
      scale: "The cluster would do this. Nothing has been changed yet.",
      evict: "The cluster would evict it. Nothing has been evicted yet.",
    },
    pods: "How many pods",
    podsNow: (n: string) => `Set to ${n} now.`,
    podsWrong: "A whole number from 0 is needed.",
    same: "It is set to this number already.",
    toZero: "All of its pods go, so it does nothing until it is scaled up again.",
    restartBody: "New pods replace its pods, as its update strategy says.",
    recreate: "Its update strategy is Recreate: all of its pods end before new ones begin.",
    onDelete: "Its update strategy is OnDelete: a pod is replaced only when somebody deletes it.",
    paused: "It is paused, so a restart would begin only when it is resumed.",
    evictBody: "The pod ends as its grace period says, unless a PodDisruptionBudget is against it.",
    noOwner: "Nothing creates this pod again.",
    autoscaled: (names: string) =>
      `A HorizontalPodAutoscaler sets how many pods there are: ${names}. It changes the number again.`,
    putBack: (service: string | undefined) =>
      `${service === undefined ? "Leat" : `Leat's service ${service}`} sets this field, so Leat's agent puts it back. Change its source in Git.`,
    setBy: (managers: string) => `Set before by ${managers}.`,
    changedBy: (manager: string, value: string) =>
      `${manager} has set it to ${value} while you looked. Nothing was changed; look again before you repeat it.`,
    changedTo: (value: string) =>
      `Somebody has set it to ${value} while you looked. Nothing was changed; look again before you repeat it.`,
    nothing: "no value",
    budget: (said: string) => `A PodDisruptionBudget does not allow the eviction now. ${said}`,
    budgetAdvice: "It becomes possible when more pods of the budget are ready.",
    done: {
      restart: (name: string) => `${name} restarts.`,
      scale: (name: string) => `${name} is scaled.`,
      evict: (name: string) => `${name} is being evicted.`,
    },
  },
};
