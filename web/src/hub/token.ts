// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Session, SessionService } from "../gen/leat/fleet/v1/session_pb";
import { text } from "../text/en.ts";

// The only module that sees a token. What it holds is in the closure of createTokens: in no storage, no URL, no
// property of an object that another module can reach. A script that came into the page could still make calls, but it
// could not carry the token away from a dump of the page's state.

/** Person is the one who is signed in. */
export interface Person {
  name: string;
  groups: readonly string[];
}

export type SignInState =
  | { state: "unknown" }
  | { state: "in"; person: Person }
  /** wasIn: a session has just ended, so that the page says so. */
  | { state: "out"; wasIn: boolean };

export interface Tokens {
  /** Returns an access token for a call, and renews it first if it ends soon. */
  token(): Promise<string>;
  /** Continues the browser's session, if there is one. */
  resume(): Promise<boolean>;
  /** Trades an API token, or the one-time code of a signed-in link, for a session of this browser. It keeps neither. */
  signIn(proof: Proof): Promise<void>;
  signOut(): Promise<void>;
  /** Forgets the token, because the hub has refused it. */
  expire(): void;
  current(): SignInState;
  subscribe(listener: () => void): () => void;
  /** Is called when there is a new token, so that streams can open again with it. */
  onRenewal(listener: () => void): () => void;
}

export type Proof = { case: "apiToken" | "code"; value: string };

interface Access {
  token: string;
  endsAt: number;
}

export interface TokenDeps {
  /** Calls without a token. */
  sessions: Client<typeof SessionService>;
  now?: () => number;
}

// The share of its life after which a token is renewed.
const renewAt = 0.8;

export function createTokens({ sessions, now = Date.now }: TokenDeps): Tokens {
  let access: Access | undefined;
  let renew: (() => Promise<Access>) | undefined;
  let end: (() => Promise<unknown>) | undefined;
  let renewing: Promise<Access> | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let signIn: SignInState = { state: "unknown" };
  const listeners = new Set<() => void>();
  const renewals = new Set<() => void>();

  function set(next: SignInState) {
    signIn = next;
    for (const listener of listeners) listener();
  }

  function forget(wasIn: boolean) {
    access = renew = end = renewing = undefined;
    clearTimeout(timer);
    set({ state: "out", wasIn });
  }

  function plan(next: Access) {
    access = next;
    clearTimeout(timer);
    // Browsers hold timers of hidden tabs back, so token() looks at the time, too.
    timer = setTimeout(() => void refresh().catch(() => {}), Math.max(1000, (next.endsAt - now()) * renewAt));
  }

  // All callers share one exchange.
  function refresh(): Promise<Access> {
    if (!renew) return Promise.reject(new ConnectError("nobody is signed in", Code.Unauthenticated));
    const from = renew;
    renewing ??= from()
      .then((next) => {
        if (renew !== from) throw new ConnectError("nobody is signed in", Code.Unauthenticated);
        plan(next);
        for (const listener of renewals) listener();
        return next;
      })
      .catch((error: unknown) => {
        // Without the hub, people keep what they see; a session that has ended ends here.
        if (ConnectError.from(error).code === Code.Unauthenticated && renew === from) forget(true);
        throw error;
      })
      .finally(() => {
        renewing = undefined;
      });
    return renewing;
  }

  const accessOf = (answer: { accessToken: string; expireTime?: Timestamp | undefined }): Access => ({
    token: answer.accessToken,
    endsAt: answer.expireTime ? timestampMs(answer.expireTime) : now() + 60_000,
  });
  const personOf = (session: Session | undefined): Person => ({
    name: session?.person ?? "",
    groups: session?.groups ?? [],
  });

  // Exchanges the cookie of the browser's session, which no script can read.
  async function begin() {
    const answer = await sessions.createAccessToken({});
    renew = async () => accessOf(await sessions.createAccessToken({}));
    end = () => sessions.signOut({});
    plan(accessOf(answer));
    set({ state: "in", person: personOf(answer.session) });
  }

  return {
    async token() {
      if (access && access.endsAt > now() + 5000) return access.token;
      return (await refresh()).token;
    },

    async resume() {
      try {
        await begin();
        return true;
      } catch (error) {
        const { code } = ConnectError.from(error);
        // Everything else, such as a hub that does not answer, says nothing about the session.
        if (code !== Code.Unauthenticated && code !== Code.InvalidArgument && code !== Code.PermissionDenied)
          throw error;
        set({ state: "out", wasIn: false });
        return false;
      }
    },

    async signIn(proof) {
      await sessions.signIn({ proof });
      try {
        await begin();
      } catch (error) {
        const { code } = ConnectError.from(error);
        // The hub has just made a session, and the browser presents none: it keeps a secure cookie for https alone.
        if (code !== Code.Unauthenticated && code !== Code.InvalidArgument) throw error;
        throw new ConnectError(text.noCookie, Code.FailedPrecondition);
      }
    },

    async signOut() {
      const last = end;
      forget(false);
      await last?.();
    },

    expire() {
      if (signIn.state === "in") forget(true);
    },

    current: () => signIn,
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    onRenewal(listener) {
      renewals.add(listener);
      return () => void renewals.delete(listener);
    },
  };
}
