// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from "react";
import { useHub } from "../../hub/hub.ts";
import { type Review, reviewAccess } from "../../kube/access.ts";
import type { Place } from "../../kube/object.ts";
import { text } from "../../text/en.ts";
import { reach } from "../../text/reach.ts";

/**
 * Returns why the cluster does not let the person use a verb on the object, or undefined if it does. Until it has said,
 * nothing is offered; if it does not say, the request itself will.
 */
export function useRefusal({ path, address }: Place, verb: string): string | undefined {
  const { clusters } = useHub();
  const of = JSON.stringify([path, address, verb]);
  const [known, setKnown] = useState<{ of: string; review: Review | undefined }>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text has all of it
  useEffect(() => {
    const ended = new AbortController();
    const { kind, namespace, name } = address;
    reviewAccess(clusters, path, verb, kind, { namespace, name }, ended.signal)
      .catch(() => undefined)
      .then((review) => {
        if (!ended.signal.aborted) setKnown({ of, review });
      });
    return () => ended.abort();
  }, [clusters, of]);
  if (known?.of !== of) return reach.object.asking;
  if (!known.review || known.review.isAllowed) return undefined;
  const own = reach.object.mayNot(verb);
  return known.review.reason === "" ? own : `${own} ${text.sentence(known.review.reason)}`;
}
