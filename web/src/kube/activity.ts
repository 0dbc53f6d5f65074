// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { ServicePhase } from "../gen/leat/type/v1/state_pb";
import type { Hub } from "../hub/hub.ts";
import { polled, type Source } from "../hub/live.ts";
import { ms } from "../hub/time.ts";
import { aboutAny, type KubeEvent, loadEvents } from "./events.ts";
import { agentOf, loadInventory, permitAgent } from "./inventory.ts";
import type { Place } from "./names.ts";
import { refOf } from "./refs.ts";

/** AgentEvent is what a service's agent did or saw. */
export interface AgentEvent {
  key: string;
  at: number;
  phase: string;
  kind: string;
  namespace: string;
  name: string;
  message: string;
}

const mostEvents = 500;
const tick = 20_000;

/**
 * Returns the source of what the agent does from now on, the newest first. Agents keep no past events, and say nothing
 * while nothing happens: then the same events come again, so that a stream that is open is not taken for a dead one.
 */
export function agentEventSource(hub: Hub, place: Place): Source<readonly AgentEvent[]> {
  let events: readonly AgentEvent[] = [];
  let count = 0;
  return {
    load: () => permitAgent(hub, place, "watch", "events").then(() => events),
    async *follow(_, signal) {
      const answer = agentOf(hub, place).watchEvents({ service: place.service }, { signal });
      const stream = answer[Symbol.asyncIterator]();
      let next = stream.next();
      while (true) {
        const waiting = new AbortController();
        const quiet = hub.surroundings.sleep(tick, waiting.signal).then(() => undefined);
        const found = await Promise.race([next, quiet]).finally(() => waiting.abort());
        if (found?.done) return;
        if (found) {
          const { time, phase, object, message } = found.value;
          count += 1;
          const event: AgentEvent = {
            key: `agent ${count}`,
            at: ms(time) ?? hub.surroundings.now(),
            phase: ServicePhase[phase] ?? "",
            ...refOf(object),
            message: message.slice(0, 4000),
          };
          events = [event, ...events].slice(0, mostEvents);
          next = stream.next();
        }
        yield events;
      }
    },
  };
}

/** Noted is what the cluster has noted about a service's objects. */
export interface Noted {
  events: readonly KubeEvent[];
  hasMore: boolean;
}

const every = 10_000;
const mostNamespaces = 5;

/** Returns the source of the cluster's events about a service's objects, the newest first. */
export const notedSource = (hub: Hub, place: Place): Source<Noted> =>
  polled(
    async (signal): Promise<Noted> => {
      const { objects } = await loadInventory(hub, place, signal);
      const refs = objects.map((object) => refOf(object.ref));
      const namespaces = new Set(refs.map(({ namespace }) => namespace || "default"));
      const { events, hasMore } = await loadEvents(
        hub,
        place.cluster,
        [...namespaces].slice(0, mostNamespaces),
        false,
        signal,
      );
      return { events: events.filter(aboutAny(refs)), hasMore: hasMore || namespaces.size > mostNamespaces };
    },
    every,
    hub.surroundings,
  );
