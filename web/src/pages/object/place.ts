// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { shellQuote } from "../../fleet/refs.ts";
import { resourceOf } from "../../kube/discovery.ts";
import type { Address } from "../../kube/object.ts";

/** Place is an object and the cluster that has it. */
export interface Place {
  /** The cluster, as people name it, and as the tunnel does. */
  cluster: string;
  path: string;
  address: Address;
}

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
