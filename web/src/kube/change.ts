// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { managersOf, type OwnedField } from "./fields.ts";

// What of an edited object a server-side apply has to send. An apply owns what
// it sends, and a field with two owners stays when one of them drops it. So an edit sends the fields that the person has
// changed, and those that earlier edits own, and no others: what Leat's agent manages stays its own.

/** Tree is a set of fields, as fieldsV1 has it: "f:NAME" of an object, "k:KEYS" of a list with keys, "v:VALUE" of a set. */
interface Tree {
  [field: string]: Tree;
}

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const treeOf = (value: unknown): Tree | undefined => (isFields(value) ? (value as Tree) : undefined);

function union(a: Tree | undefined, b: Tree | undefined): Tree | undefined {
  if (!a || !b) return a ?? b;
  const all: Tree = { ...a };
  for (const [key, value] of Object.entries(b)) all[key] = union(a[key], treeOf(value)) ?? {};
  return all;
}

/** Reports whether two values are the same, whatever the order of their fields is. */
export function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((each, index) => isSame(each, b[index]));
  if (!isFields(a) || !isFields(b)) return Object.is(a, b);
  const [one, two] = [Object.keys(a), Object.keys(b)];
  return one.length === two.length && one.every((key) => Object.hasOwn(b, key) && isSame(a[key], b[key]));
}

/** Kept is a field that the person has removed, and that an apply cannot remove, because others own it. */
export interface Kept {
  field: string;
  managers: readonly string[];
}

export interface Change {
  /** What to apply: the fields that were changed, and those that earlier edits own. undefined: nothing was changed. */
  apply: Fields | undefined;
  kept: readonly Kept[];
}

/** The keys of a list's items, by the item's "k:" in the tree. */
const keysOf = (tree: Tree): Map<string, Fields> => {
  const found = new Map<string, Fields>();
  for (const key of Object.keys(tree)) {
    if (!key.startsWith("k:")) continue;
    try {
      const keys: unknown = JSON.parse(key.slice(2));
      if (isFields(keys)) found.set(key, keys);
    } catch {
      // A key that cannot be read is as if nobody owned the item.
    }
  }
  return found;
};

const has = (item: unknown, keys: Fields) =>
  isFields(item) && Object.entries(keys).every(([key, value]) => isSame(item[key], value));

/** Returns what of an edited object has to be applied under the name of a manager. */
export function changeOf(base: Fields, edited: Fields, managed: unknown, manager: string): Change {
  const managers = managersOf(managed).map((each) => ({ ...each, tree: treeOf(each.fieldsV1) }));
  const isOwn = ({ manager: name, operation }: OwnedField) => name === manager && operation === "Apply";
  const all = managers.reduce<Tree | undefined>((sum, { tree }) => union(sum, tree), undefined);
  const own = managers.filter(isOwn).reduce<Tree | undefined>((sum, { tree }) => union(sum, tree), undefined);
  const kept: Kept[] = [];
  let isChanged = false;

  const remove = (path: readonly string[], shown: string) => {
    const owners = managers.filter((each) => {
      let at = each.tree;
      for (const key of path) at = at?.[key];
      return at !== undefined;
    });
    isChanged = true;
    // An earlier edit's own field goes when it is no longer applied.
    if (owners.length > 0 && owners.every(isOwn)) return;
    const names = owners.filter((each) => !isOwn(each)).map(({ manager: name = "" }) => name);
    kept.push({ field: shown, managers: [...new Set(names)] });
  };

  function build(
    was: unknown,
    next: unknown,
    tree: Tree | undefined,
    mine: Tree | undefined,
    path: readonly string[],
    shown: string,
  ): unknown {
    // A field that somebody owns without parts is of one piece.
    const isWhole = tree !== undefined && Object.keys(tree).length === 0;
    if (!isWhole && isFields(was) && isFields(next)) {
      const found: Fields = {};
      for (const [key, value] of Object.entries(next)) {
        const field = `f:${key}`;
        const part = build(was[key], value, tree?.[field], mine?.[field], [...path, field], `${shown}.${key}`);
        if (part !== undefined) found[key] = part;
      }
      for (const key of Object.keys(was))
        if (!Object.hasOwn(next, key)) remove([...path, `f:${key}`], `${shown}.${key}`);
      return Object.keys(found).length > 0 ? found : undefined;
    }
    const items = tree && Array.isArray(was) && Array.isArray(next) ? keysOf(tree) : undefined;
    if (items && items.size > 0) return buildItems(was as unknown[], next as unknown[], items, tree, mine, path, shown);
    if (isSame(was, next)) return mine === undefined ? undefined : next;
    isChanged = true;
    return next;
  }

  function buildItems(
    was: readonly unknown[],
    next: readonly unknown[],
    items: Map<string, Fields>,
    tree: Tree | undefined,
    mine: Tree | undefined,
    path: readonly string[],
    shown: string,
  ): unknown {
    const names = Object.keys([...items.values()][0] ?? {});
    const keyFields = (item: unknown): Fields =>
      Object.fromEntries(names.flatMap((name) => (isFields(item) && name in item ? [[name, item[name]]] : [])));
    const found: unknown[] = [];
    for (const item of next) {
      const keys = keyFields(item);
      const old = was.find((each) => has(each, keys));
      const field = [...items].find(([, each]) => isSame(each, keys))?.[0] ?? `k:${JSON.stringify(keys)}`;
      if (old === undefined || names.length === 0) {
        isChanged = true;
        found.push(item);
        continue;
      }
      const label = `${shown}[${Object.values(keys).join(",")}]`;
      const part = build(old, item, tree?.[field], mine?.[field], [...path, field], label);
      if (part !== undefined) found.push({ ...keys, ...(part as Fields) });
    }
    for (const item of was) {
      const keys = keyFields(item);
      if (next.some((each) => has(each, keys))) continue;
      const field = [...items].find(([, each]) => isSame(each, keys))?.[0] ?? `k:${JSON.stringify(keys)}`;
      remove([...path, field], `${shown}[${Object.values(keys).join(",")}]`);
    }
    return found.length > 0 ? found : undefined;
  }

  const apply = build(base, edited, all, own, [], "") as Fields | undefined;
  return { apply: isChanged ? (apply ?? {}) : undefined, kept };
}
