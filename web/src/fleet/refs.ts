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

/** Splits a commit's address into its repository and itself. */
export function splitCommit(ref: string): { repository: string; commit: string } {
  const at = ref.indexOf("@");
  return at < 0 ? { repository: "", commit: ref } : { repository: ref.slice(0, at), commit: ref.slice(at + 1) };
}

/** SourcesInShort is what a list says of a service's sources. */
interface SourcesInShort {
  repositories: readonly string[];
  commits: readonly string[];
  versions: readonly string[];
}

/**
 * Returns a source's repository, if the short form of its service tells it. The hub leaves out the commits of sources
 * that have none yet, and the versions of those that have none.
 */
export const repositoryAt = (row: SourcesInShort, index: number): string | undefined =>
  row.repositories.length === row.commits.length || new Set(row.repositories).size === 1
    ? row.repositories[index]
    : undefined;

/** Returns the version that goes with a commit, if the short form of its service tells it. */
export const versionAt = (row: SourcesInShort, index: number): string | undefined =>
  row.versions.length === row.commits.length ? row.versions[index] : undefined;

/**
 * Returns the ref of a name that the hub writes as the members of a project do: NAME is of the project then, and not of
 * the project default. A service's cluster is named from the service's own project in both.
 */
export function refIn(project: string, name: string): string {
  const at = name.indexOf("@");
  const object = at < 0 ? name : name.slice(0, at);
  const own = object.includes("/") || project === "default" || project === "" ? object : `${project}/${object}`;
  return own.replace(/^default\//, "") + (at < 0 ? "" : name.slice(at));
}

/** Returns a commit in short, as people write it. */
export const shortCommit = (commit: string): string => commit.replace(/^sha256:/, "").slice(0, 8);

/** Quotes a text for a shell, if it needs quotes. */
export const shellQuote = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
