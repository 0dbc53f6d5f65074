// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link } from "@tanstack/react-router";
import { LogLine } from "../parts/line.tsx";
import { shortCommit } from "./refs.ts";

/** How much of a version is shown. */
const mostShown = 64;

/** CommitLink leads from a commit to everything that has it. Without a repository it is text. */
export function CommitLink({
  repository,
  commit,
  version,
  title = commit,
  isInGrid = false,
}: {
  repository: string | undefined;
  commit: string;
  /** What people call the commit, such as the version of a chart. */
  version?: string | undefined;
  title?: string;
  /** A grid has one stop for the keyboard, and Enter opens its row. */
  isInGrid?: boolean;
}) {
  // An agent reports what it has, so it may be any text.
  const word = (
    <code title={title}>
      <LogLine most={mostShown}>{version || shortCommit(commit)}</LogLine>
    </code>
  );
  if (!repository || commit === "") return word;
  return (
    <Link to="/commits/$" params={{ _splat: `${repository}@${commit}` }} {...(isInGrid && { tabIndex: -1 })}>
      {word}
    </Link>
  );
}
