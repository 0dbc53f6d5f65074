// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { reasonName } from "../../fleet/columns.tsx";
import { type Health, Health as HealthOf, type ObjectStatus } from "../../gen/leat/type/v1/state_pb";
import type { Failure } from "../../hub/failure.ts";
import type { Family, Owned } from "../../kube/owned.ts";
import { keyOf, type Ref, refOf, workloadOf } from "../../kube/refs.ts";
import type { Branch } from "../../parts/outline.tsx";

// The outline of a service's objects as plain values: what the agent lists, and below workloads what they own.

/** Node is one row of the outline. */
export type Node = { key: string; children: readonly Node[] } & (
  | { is: "object"; ref: Ref; health: Health; reason: string; message: string }
  | { is: "owned"; owned: Owned }
  /** Many siblings of one kind, folded to their counts. */
  | { is: "group"; kind: string; namespace: string; counts: readonly Count[]; health: Health }
  /** A workload whose pods have not been read, and why not. */
  | { is: "note"; failure?: Failure; more?: number; isEmpty?: boolean }
);

export interface Count {
  health: Health;
  count: number;
}

/** How many siblings of one kind are shown one by one. */
export const mostSiblings = 50;

const mostMessage = 2000;

// From the worst to the best.
const order: Health[] = [
  HealthOf.MISSING,
  HealthOf.DEGRADED,
  HealthOf.TERMINATING,
  HealthOf.PROGRESSING,
  HealthOf.UNSPECIFIED,
  HealthOf.HEALTHY,
];

export const isWell = (health: Health): boolean => health === HealthOf.HEALTHY || health === HealthOf.UNSPECIFIED;

export const healthOf = (node: Node): Health =>
  node.is === "owned" ? node.owned.health : node.is === "note" ? HealthOf.HEALTHY : node.health;

export function countsOf(nodes: readonly Node[]): Count[] {
  const counts = new Map<Health, number>();
  for (const node of nodes) counts.set(healthOf(node), (counts.get(healthOf(node)) ?? 0) + 1);
  return order.flatMap((health) => {
    const count = counts.get(health);
    return count ? [{ health, count }] : [];
  });
}

/** Returns the worst of some, and of those that are alike the first; undefined if all are well. */
export function worstOf<T>(all: readonly T[], health: (each: T) => Health): T | undefined {
  const bad = all.filter((each) => !isWell(health(each)));
  return bad.toSorted((a, b) => order.indexOf(health(a)) - order.indexOf(health(b)))[0];
}

/** Sorts the worst first, and keeps the order of those that are alike. */
const worstFirst = (nodes: readonly Node[]): Node[] =>
  nodes.toSorted((a, b) => order.indexOf(healthOf(a)) - order.indexOf(healthOf(b)));

/** Folds siblings of one kind, if there are many, to one row where the first of them is. */
function fold(nodes: readonly Node[], kindOf: (node: Node) => { kind: string; namespace: string }): Node[] {
  const kinds = new Map<string, Node[]>();
  for (const node of nodes) {
    const { kind } = kindOf(node);
    const of = kinds.get(kind);
    if (of) of.push(node);
    else kinds.set(kind, [node]);
  }
  return [...kinds.values()].flatMap((siblings): Node[] => {
    const first = siblings[0];
    if (!first || siblings.length <= mostSiblings) return siblings;
    const { kind } = kindOf(first);
    const namespaces = new Set(siblings.map((node) => kindOf(node).namespace));
    const counts = countsOf(siblings);
    return [
      {
        key: `group ${first.key}`,
        is: "group",
        kind,
        namespace: namespaces.size === 1 ? kindOf(first).namespace : "",
        counts,
        health: counts[0]?.health ?? HealthOf.UNSPECIFIED,
        children: worstFirst(siblings),
      },
    ];
  });
}

const ownedNode = (parent: string, owned: Owned, children: readonly Node[] = []): Node => ({
  key: `${parent}\n${keyOf(owned)}`,
  is: "owned",
  owned,
  children,
});

const kindOfOwned = (node: Node) =>
  node.is === "owned" ? { kind: node.owned.kind, namespace: node.owned.namespace } : { kind: "", namespace: "" };

/** Known is what has been read about a workload. */
export interface Known {
  family?: Family | undefined;
  failure?: Failure | undefined;
}

function childrenOf(key: string, known: Known | undefined): Node[] {
  const { family, failure } = known ?? {};
  if (!family) return [{ key: `${key}\nnote`, is: "note", children: [], ...(failure && { failure }) }];
  const pods = (of: readonly Owned[]) =>
    fold(
      of.map((pod) => ownedNode(key, pod)),
      kindOfOwned,
    );
  const nodes = [...family.replicaSets.map((set) => ownedNode(key, set, pods(set.pods))), ...pods(family.pods)];
  if (failure) nodes.unshift({ key: `${key}\nnote`, is: "note", failure, children: [] });
  else if (family.more !== 0) nodes.push({ key: `${key}\nmore`, is: "note", more: family.more, children: [] });
  else if (nodes.length === 0) nodes.push({ key: `${key}\nempty`, is: "note", isEmpty: true, children: [] });
  return nodes;
}

/** Returns the outline: the objects in the order in which the agent applies them, with what is known below each. */
export function outlineOf(objects: readonly ObjectStatus[], known: ReadonlyMap<string, Known>): Node[] {
  const nodes = objects.map((object): Node => {
    const ref = refOf(object.ref);
    const key = keyOf(ref);
    return {
      key,
      is: "object",
      ref,
      health: object.health,
      reason: object.problem ? reasonName(object.problem.reason) : "",
      message: (object.problem?.message ?? "").slice(0, mostMessage),
      children: workloadOf(ref) ? childrenOf(key, known.get(key)) : [],
    };
  });
  return fold(nodes, (node) => (node.is === "object" ? node.ref : { kind: "", namespace: "" }));
}

/** Reports whether a row is unfolded before the person has chosen: what is wrong is, and what leads to pods. */
export const opensByItself = (node: Node): boolean =>
  node.is === "owned" ? node.children.length > 0 : !isWell(healthOf(node));

/** Returns the rows in sight. */
export function rowsOf(nodes: readonly Node[], isOpen: (node: Node) => boolean, level = 1): Branch<Node>[] {
  return nodes.flatMap((node, index) => {
    const isUnfolded = node.children.length > 0 ? isOpen(node) : undefined;
    const row: Branch<Node> = {
      key: node.key,
      item: node,
      level,
      position: index + 1,
      size: nodes.length,
      ...(isUnfolded !== undefined && { isOpen: isUnfolded }),
    };
    return isUnfolded ? [row, ...rowsOf(node.children, isOpen, level + 1)] : [row];
  });
}
