// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/** OwnedField is an entry of an object's managedFields. */
export interface OwnedField {
  manager?: string;
  operation?: string;
  subresource?: string;
  time?: string;
  fieldsV1?: unknown;
}

const mostManagers = 50;

/** Returns the managers of an object's fields. */
export const managersOf = (fields: unknown): OwnedField[] =>
  (Array.isArray(fields) ? fields : [])
    .slice(0, mostManagers)
    .filter((each): each is OwnedField => typeof each?.manager === "string");
