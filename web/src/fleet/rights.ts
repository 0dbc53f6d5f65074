// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from "react";
import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import { type Hub, useHub } from "../hub/hub.ts";
import { text } from "../text/en.ts";

/** Subject is an object that a person may want to change. */
export interface Subject {
  kind: string;
  /** The resource of the kind, as permissions name it. */
  resource: string;
  ref: string;
  name: string;
  project: string;
  /** A service's cluster and namespace. */
  cluster?: string;
  namespace?: string;
}

/** Returns why the person may not use the verb, or undefined if they may. */
export type Refused = (verb: string) => string | undefined;

/**
 * Asks for the verbs that the person may use on an object, and for the hub's own words about each that is missing. A
 * hub that does not say is not asked twice: the call itself will say.
 */
async function ask(hub: Hub, of: Subject, verbs: readonly string[], signal: AbortSignal): Promise<Map<string, string>> {
  const { rows } = await hub.query.queryFleet(
    {
      query: {
        kind: of.kind,
        project: of.project || "default",
        ...(of.cluster && { cluster: of.cluster }),
        filter: `name="${of.name}"`,
        size: 1,
      },
    },
    { signal },
  );
  const can = rows.find((row) => row.ref === of.ref)?.can;
  if (!can) return new Map();
  const missing = verbs.filter((verb) => !can.includes(verb));
  const reasons = await Promise.all(
    missing.map(async (verb): Promise<[string, string]> => {
      const attributes = { verb, apiGroup: "leat.dev", resource: of.resource, namespace: of.namespace ?? "" };
      const own = text.mayNot(verb, of.resource);
      try {
        const { allowed, reason } = await hub
          .call(FleetService)
          .reviewAccess({ cluster: of.cluster ?? "", attributes }, { signal });
        return [verb, allowed || reason === "" ? own : `${own} ${text.hubSays(reason)}`];
      } catch {
        // The reason is a help beside the refusal, which is known already.
        return [verb, own];
      }
    }),
  );
  return new Map(reasons);
}

/** Returns what the person may not do with the object. Until the hub has said, nothing is offered. */
export function useRights(subject: Subject, verbs: readonly string[]): Refused {
  const hub = useHub();
  const key = JSON.stringify([subject, verbs]);
  const [known, setKnown] = useState<{ key: string; reasons: Map<string, string> }>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key is the subject and the verbs
  useEffect(() => {
    const ended = new AbortController();
    ask(hub, subject, verbs, ended.signal)
      .catch(() => new Map<string, string>())
      .then((reasons) => {
        if (!ended.signal.aborted) setKnown({ key, reasons });
      });
    return () => ended.abort();
  }, [hub, key]);
  return (verb) => (known?.key === key ? known.reasons.get(verb) : text.rightsLoading);
}
