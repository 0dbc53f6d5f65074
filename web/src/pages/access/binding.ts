// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/** For how many hours access can be given. Zero is without an end. */
export const hours = [1, 8, 24, 168, 720, 0] as const;

/** Returns the names in a text, which people separate by commas or spaces, each once. */
export const namesOf = (written: string): string[] => [...new Set(written.split(/[\s,]+/).filter(Boolean))];

/**
 * Returns a name for a binding: what it is about, and the minute it was begun in, so that people find it again and two
 * of them differ. The hub refuses other characters, and names of more than 63.
 */
export function bindingName(about: readonly string[], at: number): string {
  const words = about
    .join("-")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, 45)
    .replaceAll(/^-+|-+$/g, "");
  const minute = new Date(at).toISOString().slice(0, 16).replaceAll(/[-:]/g, "").toLowerCase();
  return [words || "access", minute].join("-");
}
