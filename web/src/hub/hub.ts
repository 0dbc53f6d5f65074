// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { DescService } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createContext, use } from "react";
import { QueryService } from "../gen/leat/fleet/v1/query_pb";
import { SessionService } from "../gen/leat/fleet/v1/session_pb";
import { type Builds, noBuilds } from "./build.ts";
import { browserSurroundings, type Surroundings } from "./live.ts";
import { noTabs, type Tabs } from "./tabs.ts";
import { createTokens, type Tokens } from "./token.ts";

/** Hub is everything that pages call. */
export interface Hub {
  /** Returns the client of a service. The page that names one brings its descriptor, which the first page does not need. */
  call: <Service extends DescService>(service: Service) => Client<Service>;
  query: Client<typeof QueryService>;
  /** Is called without a token, to sign in and out. */
  sessions: Client<typeof SessionService>;
  /** The same service, called by the person who is signed in. */
  signIns: Client<typeof SessionService>;
  clusters: Clusters;
  /** Carries calls to the tunnel's own service. Pages that few people open make its client. */
  tunnel: Transport;
  tokens: Tokens;
  builds: Builds;
  surroundings: Surroundings;
}

/** Clusters are what the tunnel leads to. A cluster is named by its path: NAME, or PROJECT.NAME. */
export interface Clusters {
  /** Returns the transport of calls to a cluster's agent. */
  transport: (cluster: string) => Transport;
  /** Requests a path of a cluster's Kubernetes API. It throws only if there is no answer at all. */
  fetch: (cluster: string, path: string, init: ClusterRequest) => Promise<Response>;
  /** Opens a WebSocket to such a path. Whether it is refused, and why, no browser lets a page know. */
  connect: (cluster: string, path: string, protocols: readonly string[]) => Promise<Socket>;
}

/** ClusterRequest is how a path of a cluster is requested. Without a sending it is read. */
export interface ClusterRequest {
  signal: AbortSignal;
  accept?: string;
  sending?: { method: "POST" | "PATCH" | "DELETE"; type: string; body: string };
}

/** Socket is what pages need of a WebSocket. */
export type Socket = Pick<WebSocket, "binaryType" | "protocol" | "bufferedAmount" | "send" | "close"> & EventTarget;

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Around is what the browser has around a page. By default it has nothing that reaches other tabs or another build. */
export interface Around {
  surroundings: Surroundings;
  tabs: Tabs;
  builds: Builds;
  request: Fetch;
  socket: (url: string, protocols: string[]) => Socket;
}

/** Makes the transport of one kind of calls, below a path of the hub. Tests give one that answers in the page. */
export type MakeTransport = (interceptors: Interceptor[], path?: string) => Transport;

const clusterUrl = (cluster: string) => `/clusters/${encodeURIComponent(cluster)}`;

/** Browsers send no header with a WebSocket, so the token is among its protocols, as in Kubernetes. */
const bearerProtocol = (token: string) =>
  `base64url.bearer.authorization.k8s.io.${btoa(token).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;

const bearing =
  (token: () => string | Promise<string>): Interceptor =>
  (next) =>
  async (request) => {
    request.header.set("Authorization", `Bearer ${await token()}`);
    return next(request);
  };

/**
 * Returns the clients of a hub. Each call carries an access token, and one that the hub refuses signs the person out:
 * renewal has failed before, or the session was revoked.
 */
export function createHub(
  makeTransport: MakeTransport,
  {
    surroundings = browserSurroundings(),
    tabs = noTabs,
    builds = noBuilds,
    request = (url, init) => fetch(url, init),
    socket = (url, protocols) => new WebSocket(url, protocols),
  }: Partial<Around> = {},
): Hub {
  const sessions = createClient(SessionService, makeTransport([]));
  const tokens = createTokens({ sessions, tabs });
  const expiring: Interceptor = (next) => async (request) => {
    try {
      return await next(request);
    } catch (error) {
      if (ConnectError.from(error).code === Code.Unauthenticated) tokens.expire();
      throw error;
    }
  };
  const transport = makeTransport([expiring, bearing(() => tokens.token())]);
  return {
    call: (service) => createClient(service, transport),
    query: createClient(QueryService, transport),
    sessions,
    signIns: createClient(SessionService, transport),
    clusters: {
      transport: (cluster) => makeTransport([expiring, bearing(() => tokens.token("tunnel"))], clusterUrl(cluster)),
      async fetch(cluster, path, { signal, accept = "application/json", sending }) {
        const headers = {
          Accept: accept,
          Authorization: `Bearer ${await tokens.token("tunnel")}`,
          ...(sending && { "Content-Type": sending.type }),
        };
        // Nothing below /clusters/ accepts a cookie, and what a cluster answers is in no cache of the browser.
        const init: RequestInit = { signal, headers, credentials: "omit", cache: "no-store", redirect: "error" };
        if (sending) Object.assign(init, { method: sending.method, body: sending.body });
        const response = await request(clusterUrl(cluster) + path, init);
        // A cluster that refuses the hub's own identity says nothing about the person's sign-in.
        if (response.status === 401 && response.headers.get("Leat-Error-Origin") === "hub") tokens.expire();
        return response;
      },
      async connect(cluster, path, protocols) {
        const url = new URL(clusterUrl(cluster) + path, location.origin);
        url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
        return socket(url.href, [...protocols, bearerProtocol(await tokens.token("tunnel"))]);
      },
    },
    tunnel: makeTransport([expiring, bearing(() => tokens.token("tunnel"))]),
    tokens,
    builds,
    surroundings: { ...surroundings, onRenewal: tokens.onRenewal },
  };
}

export const HubContext = createContext<Hub | undefined>(undefined);

export function useHub(): Hub {
  const hub = use(HubContext);
  if (!hub) throw new Error("a page is shown outside of a hub");
  return hub;
}
