// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GitRefSchema } from "../../gen/leat/type/v1/source_pb";

const commitForm = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

/**
 * Returns the ref that a text names, in the forms of the command line: a branch, tag:NAME, a commit id, commit:SHORT or
 * refs/…. A bare name is always a branch: if it could also be a tag, a branch with a tag's name would be taken for it.
 */
export function parseRef(text: string): MessageInitShape<typeof GitRefSchema> {
  if (text.startsWith("refs/")) return { selector: { case: "name", value: text } };
  if (text.startsWith("tag:")) return { selector: { case: "tag", value: text.slice("tag:".length) } };
  const isMarked = text.startsWith("commit:");
  if (isMarked || commitForm.test(text)) {
    return { selector: { case: "commit", value: isMarked ? text.slice("commit:".length) : text } };
  }
  return { selector: { case: "branch", value: text } };
}
