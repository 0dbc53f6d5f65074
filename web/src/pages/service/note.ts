// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { wordsOf } from "../../fleet/reach.tsx";
import { text } from "../../text/en.ts";
import { understand } from "../../text/understand.ts";
import type { Node } from "./tree.ts";

/** Returns what is said in place of pods that are not shown. */
export function noteOf(node: Node & { is: "note" }): string {
  if (node.failure) return wordsOf(node.failure).title;
  if (node.more !== undefined) return understand.tree.morePods(node.more);
  return node.isEmpty ? understand.tree.noPods : text.loading;
}
