// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Clusters } from "../hub/hub.ts";
import { type Cause, hasCode, query, sendJson } from "./api.ts";
import { type Address, type KubeObject, objectPath } from "./object.ts";

// Changes of one object. An edit is a server-side apply under a name of the UI's own, so the cluster refuses what another
// manager has set, and names both.

/** The name under which the UI applies. */
export const editor = "leat-ui";

/** Conflict is a manager that has set fields which an edit would change. */
export interface Conflict {
  manager: string;
  fields: readonly string[];
}

export type Applied = { object: KubeObject } | { conflicts: readonly Conflict[] };

/** Returns the conflicts among the causes of a refusal, by manager. */
export function conflictsOf(causes: readonly Cause[]): Conflict[] {
  const found = new Map<string, string[]>();
  for (const { reason, field, message } of causes) {
    if (reason !== "FieldManagerConflict") continue;
    const manager = /^conflict with "((?:[^"\\]|\\.)*)"/.exec(message)?.[1] ?? message;
    const fields = found.get(manager) ?? [];
    if (!fields.includes(field)) fields.push(field);
    found.set(manager, fields);
  }
  return [...found].map(([manager, fields]) => ({ manager, fields }));
}

/**
 * Applies fields of an object that exists. Its uid is a part of them, so that an object which was deleted in between is
 * not made again, and so may its version be, so that nobody agrees to something else than they have seen.
 */
export async function applyFields(
  clusters: Clusters,
  cluster: string,
  address: Address,
  fields: KubeObject,
  { isDryRun, isForced }: { isDryRun: boolean; isForced: boolean },
  signal: AbortSignal,
): Promise<Applied> {
  const options = {
    fieldManager: editor,
    fieldValidation: "Strict",
    dryRun: isDryRun ? "All" : undefined,
    force: isForced || undefined,
  };
  const path = objectPath(address) + query(options);
  try {
    return {
      object: await sendJson<KubeObject>(
        clusters,
        cluster,
        path,
        "PATCH",
        fields,
        signal,
        "application/apply-patch+yaml",
      ),
    };
  } catch (thrown) {
    const conflicts = hasCode(thrown, 409) ? conflictsOf(thrown.causes) : [];
    if (conflicts.length > 0) return { conflicts };
    throw thrown;
  }
}

export const propagations = ["Background", "Foreground", "Orphan"] as const;
export type Propagation = (typeof propagations)[number];

/** Deletes an object, or asks whether the cluster would. The uid keeps another object of the same name. */
export async function deleteObject(
  clusters: Clusters,
  cluster: string,
  address: Address,
  { uid, propagation, isDryRun }: { uid: string; propagation: Propagation; isDryRun: boolean },
  signal: AbortSignal,
): Promise<void> {
  await sendJson(
    clusters,
    cluster,
    objectPath(address),
    "DELETE",
    {
      apiVersion: "v1",
      kind: "DeleteOptions",
      propagationPolicy: propagation,
      preconditions: { uid },
      ...(isDryRun && { dryRun: ["All"] }),
    },
    signal,
  );
}
