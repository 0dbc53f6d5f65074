// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { number } from "./en.ts";

// The words of a repository's page. They are a part of the catalog that is loaded with it.

export const repositoryText = {
  repository: {
    fetchNow: "Fetch now",
    fetched: (name: string) => `${name} is as its upstream.`,
    notFetched: (message: string) => `It was not fetched: ${message}`,
    suspended: "It is suspended: Leat does not fetch it.",
  },
  repositoryType: { 0: "Git", 1: "Git", 2: "Helm", 3: "OCI" } as Record<number, string>,
  mirror: "Mirror",
  heldRefs: "Refs that are held back",
  heldRefsMore: (n: number) => `and ${number(n)} more`,
  heldRefsBody: "Their commits are not signed by an accepted key. Services get the last accepted one.",
  usedBy: "Services from it",
  usedByNone: "No service uses it",
  usedByNoneBody: "A service names it as a source.",
};
