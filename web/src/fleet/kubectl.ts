// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { resourceOf } from "../kube/discovery.ts";
import type { Place } from "../kube/object.ts";
import { shellQuote } from "./refs.ts";

/** Returns the command line of kubectl about an object. */
export const kubectl = ({ path, address: { kind, namespace, name } }: Place, verb: string, options = ""): string =>
  [
    `kubectl --context ${shellQuote(`leat-${path}`)}`,
    namespace && `-n ${shellQuote(namespace)}`,
    `${verb} ${shellQuote(`${resourceOf(kind)}/${name}`)}`,
    options,
  ]
    .filter(Boolean)
    .join(" ");
