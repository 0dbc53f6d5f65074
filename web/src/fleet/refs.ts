// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Where objects are. A ref is a name as the hub writes it: NAME, PROJECT/NAME, and of a service NAME@CLUSTER. Its slashes
// are slashes of the path, so that people can read and write the address.

const pages: Record<string, "/services" | "/clusters" | "/repositories"> = {
  Service: "/services",
  Cluster: "/clusters",
  Repository: "/repositories",
};

/** Returns the page of a kind's list, or undefined if it has none. */
export const listPage = (kind: string) => pages[kind];

/** Reports whether an object of the kind has a page. */
export const hasPage = (kind: string): boolean => kind in objectPages;

const objectPages: Record<string, "/services/$" | "/clusters/$" | "/repositories/$"> = {
  Service: "/services/$",
  Cluster: "/clusters/$",
  Repository: "/repositories/$",
};

/** Returns the page of an object of the kind, or undefined if it has none. */
export const objectPage = (kind: string) => objectPages[kind];

/** Splits a service's ref into its name and its cluster. */
export function splitService(ref: string): { name: string; cluster: string } {
  const at = ref.indexOf("@");
  return at < 0 ? { name: ref, cluster: "" } : { name: ref.slice(0, at), cluster: ref.slice(at + 1) };
}

/** Returns an object's path, as addresses of the hub hold it where a slash could not be. */
export const pathOf = (project: string, name: string): string =>
  project === "" || project === "default" ? name : `${project}.${name}`;

/** Returns a commit in short, as people write it. */
export const shortCommit = (commit: string): string => commit.replace(/^sha256:/, "").slice(0, 8);

/** Quotes a text for a shell, if it needs quotes. */
export const shellQuote = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
