// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { count } from "./en.ts";

// The words of image policies.

export const images = {
  none: "No image policy yet",
  noneBody:
    "An image policy selects the newest tag of an image, and writes it into the lines of a Git repository that name the policy.",
  states: {
    problem: "Has a problem",
    suspended: "Suspended",
    never: "Not looked yet",
    writes: "Keeps Git up to date",
    selects: "Only selects",
  },
  column: { tag: "Tag", writes: "Writes to", selected: "Selected" },
  image: "Image",
  tag: "Tag",
  digest: "Digest",
  selected: "Selected image",
  noneSelected: "none yet",
  since: "Selected",
  looked: "Looked",
  rule: "Rule",
  tagsOf: "Tags of",
  greatest: {
    0: "the highest version",
    1: "the highest version",
    2: "the greatest number",
    3: "the last in the order of text",
  } as Record<number, string>,
  within: (range: string) => `within ${range}`,
  matching: (pattern: string) => `of tags that match ${pattern}`,
  pins: "Pins the digest",
  yes: "yes",
  no: "no",
  write: "What it writes",
  nothing: "Nothing: it only shows what it selects.",
  branch: "Branch",
  folder: "Folder",
  by: "By",
  byCommit: "a commit onto the branch",
  byPullRequest: "a pull request",
  marks: "Lines that name it",
  marksOf: (n: number) => count(n, "line", "lines"),
  commit: "Last commit",
  pullRequest: "Last pull request",
  sync: "Sync now",
  syncAsked: "Sync requested. The look follows within seconds.",
  syncing: "Looking now …",
  syncSuspended: "It is suspended, so it looks at nothing.",
  suspendedTitle: "It writes nothing while it is suspended",
  notMarked: (name: string) => `# leat: image=${name}`,
  markHelp: "A line of a file names the policy by a comment at its end, such as",
};
