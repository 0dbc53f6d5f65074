// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { ObjectRef } from "../gen/leat/type/v1/state_pb";

/** Ref names an object of a cluster. It has no version, because an object has one name in all versions. */
export interface Ref {
  group: string;
  kind: string;
  namespace: string;
  name: string;
}

export const refOf = (ref: ObjectRef | undefined): Ref => ({
  group: ref?.group ?? "",
  kind: ref?.kind ?? "",
  namespace: ref?.namespace ?? "",
  name: ref?.name ?? "",
});

/** Returns a text that two objects never share. */
export const keyOf = ({ group, kind, namespace, name }: Ref): string => [group, kind, namespace, name].join("\n");

// The kinds that Leat's agents apply before workloads, and those that they apply after them.
const foundations = ["/Namespace", "apiextensions.k8s.io/CustomResourceDefinition"];
const configurationGroups = [
  "rbac.authorization.k8s.io",
  "storage.k8s.io",
  "scheduling.k8s.io",
  "node.k8s.io",
  "policy",
];
const configurations = [
  "/ResourceQuota",
  "/LimitRange",
  "/ServiceAccount",
  "/Secret",
  "/ConfigMap",
  "/PersistentVolume",
  "/PersistentVolumeClaim",
  "/Service",
  "/Endpoints",
  "networking.k8s.io/NetworkPolicy",
  "networking.k8s.io/IngressClass",
  "discovery.k8s.io/EndpointSlice",
];

/** Returns where an object's kind is in the order in which agents apply: objects may need those of lower ranks. */
export function rankOf({ group, kind }: Ref): number {
  const name = `${group}/${kind}`;
  if (foundations.includes(name)) return 0;
  if (configurationGroups.includes(group) || configurations.includes(name)) return 1;
  return group === "admissionregistration.k8s.io" ? 3 : 2;
}

/** The kinds that own pods, and the resource of each. */
const workloads: Record<string, { groupVersion: string; resource: string; hasReplicaSets?: boolean }> = {
  "apps/Deployment": { groupVersion: "apps/v1", resource: "deployments", hasReplicaSets: true },
  "apps/StatefulSet": { groupVersion: "apps/v1", resource: "statefulsets" },
  "apps/DaemonSet": { groupVersion: "apps/v1", resource: "daemonsets" },
  "apps/ReplicaSet": { groupVersion: "apps/v1", resource: "replicasets" },
  "batch/Job": { groupVersion: "batch/v1", resource: "jobs" },
};

export const workloadOf = ({ group, kind }: Ref) => workloads[`${group}/${kind}`];

/** Reports whether an object owns pods, or is one. */
export const hasPods = (ref: Ref): boolean => workloadOf(ref) !== undefined || (ref.group === "" && ref.kind === "Pod");
