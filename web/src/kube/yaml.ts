// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { parseDocument, stringify } from "yaml";
import type { KubeObject } from "./object.ts";

// An object as YAML, and back. A text that a person pastes is bounded, because a few lines of YAML can stand for more
// than any machine holds.

const mostText = 1_500_000;
const mostDepth = 100;
const mostAliases = 100;

/** The fields that the API server alone sets. A person reads or edits an object without them. */
const ofServer = ["uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"];

/** Returns an object without the fields that the API server sets: all of them, or those that nobody reads. */
export function editable({ status: _, metadata = {}, ...object }: KubeObject): KubeObject {
  const own = Object.entries(metadata).filter(([name]) => !ofServer.includes(name));
  return { ...object, metadata: Object.fromEntries(own) };
}

export function readable({ metadata: { managedFields: _, ...metadata } = {}, ...object }: KubeObject): KubeObject {
  return { ...object, metadata };
}

const first = ["apiVersion", "kind", "metadata"];

/** Returns an object as YAML, with what it is at the top. */
export function toYaml(object: KubeObject): string {
  const sorted = Object.entries(object).sort(
    ([a], [b]) => (first.indexOf(a) + 1 || first.length + 1) - (first.indexOf(b) + 1 || first.length + 1),
  );
  return stringify(Object.fromEntries(sorted), { lineWidth: 0, aliasDuplicateObjects: false });
}

function isTooDeep(value: unknown, left: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return left === 0 || Object.values(value).some((each) => isTooDeep(each, left - 1));
}

/** Parsed is the object that a text holds, or why the text holds no object. */
export type Parsed = { object: KubeObject } | { objection: "tooLong" | "tooDeep" | "noObject" } | { words: string };

/** Returns the object that a text stands for. */
export function fromYaml(text: string): Parsed {
  if (text.length > mostText) return { objection: "tooLong" };
  try {
    const document = parseDocument(text, { uniqueKeys: true });
    const [error] = document.errors;
    if (error?.code === "RESOURCE_EXHAUSTION") return { objection: "tooDeep" };
    if (error) return { words: error.message.slice(0, 500) };
    const value: unknown = document.toJS({ maxAliasCount: mostAliases });
    if (typeof value !== "object" || value === null || Array.isArray(value)) return { objection: "noObject" };
    return isTooDeep(value, mostDepth) ? { objection: "tooDeep" } : { object: value as KubeObject };
  } catch (thrown) {
    // A text that is nested too deep for the parser, or that has too many aliases.
    if (thrown instanceof RangeError) return { objection: "tooDeep" };
    return { words: (thrown instanceof Error ? thrown.message : String(thrown)).slice(0, 500) };
  }
}
