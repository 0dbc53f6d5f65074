// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import { Code, ConnectError } from "@connectrpc/connect";
import type { SessionService } from "../gen/leat/fleet/v1/session_pb";
import { text } from "../text/en.ts";
import { noTabs, type Tabs } from "./tabs.ts";

// The only module that sees a token. What it holds is in the closure of createTokens: in no storage, no URL, no
// property of an object that another module can reach. A script that came into the page could still make calls, but it
// could not carry the token away from a dump of the page's state.
//
// The tabs of a browser have one session, so one of them renews the token for all. See tabs.ts for who hears that.

/** Person is the one who is signed in. */
export interface Person {
  name: string;
  groups: readonly string[];
}

export type SignInState =
  | { state: "unknown" }
  | { state: "in"; person: Person }
  /**
   * wasIn: a session has just ended, so that the page says so. isPending: the person has signed out, and the hub has not
   * confirmed it, so the browser may still hold the session's cookie.
   */
  | { state: "out"; wasIn: boolean; isPending?: boolean };

/** Audience is the service of the hub that a token is for: the distributor, or the tunnel, which leads to clusters. */
export type Audience = "distributor" | "tunnel";

export interface Tokens {
  /** Returns an access token for a call, and renews it first if it ends soon. */
  token(audience?: Audience): Promise<string>;
  /** Continues the browser's session, if there is one. */
  resume(): Promise<boolean>;
  /** Trades an API token, or the one-time code of a signed-in link, for a session of this browser. It keeps neither. */
  signIn(proof: Proof): Promise<void>;
  /** Ends the session. The page leaves it at once. If the hub cannot be asked, the state is pending, and the person can try again. */
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
  renewAt: number;
}

/** The session that the token is of. A tab that signs out and in again holds another one. */
interface Held {
  session: string;
}

/**
 * What tabs say to one another. A tab listens to words about its own session alone, so that a token never becomes that
 * of another person.
 */
type Word =
  /** A new token, for the tabs of the session. */
  | { kind: "token"; session: string; token: string; endsAt: number }
  /** A question for such a token. */
  | { kind: "ask"; session: string }
  /** A person has signed in to the browser. */
  | { kind: "in"; session: string }
  /** A person has signed out of the session. */
  | { kind: "out"; session: string };

function asWord(said: unknown): Word | undefined {
  const word = said as Partial<Record<string, unknown>> | null;
  if (typeof word !== "object" || word === null || typeof word.session !== "string" || word.session === "")
    return undefined;
  const { kind, session, token, endsAt } = word;
  if (kind === "token")
    return typeof token === "string" && typeof endsAt === "number" ? { kind, session, token, endsAt } : undefined;
  return kind === "ask" || kind === "in" || kind === "out" ? { kind, session } : undefined;
}

export interface TokenDeps {
  /** Calls without a token. */
  sessions: Client<typeof SessionService>;
  tabs?: Tabs;
  now?: () => number;
  random?: () => number;
}

// The share of its life after which a token is renewed. The tabs that were given one wait a little longer than the tab
// that fetched it, and not all for as long, so that one of them goes first.
const renewAt = 0.8;
const renewGivenAt = 0.85;
const renewSpread = 0.1;

/** A token that ends so soon is renewed before a call. */
const endsSoon = 5000;
const callLasts = 20_000;
const answerLasts = 1000;

const nobody = () => new ConnectError("nobody is signed in", Code.Unauthenticated);

export function createTokens({ sessions, tabs = noTabs, now = Date.now, random = Math.random }: TokenDeps): Tokens {
  let access: Access | undefined;
  let held: Held | undefined;
  let renewing: Promise<Access> | undefined;
  // Of the session that is held. The tunnel asks about a request that runs, and does not end it with its token, so each
  // tab exchanges one when a request needs it, and nothing opens again for it.
  let tunnel: { access?: { token: string; endsAt: number }; renewing?: Promise<string> } = {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  let signIn: SignInState = { state: "unknown" };
  // The end of a session makes the browser forget the cookie that it then has, so a new session waits for it.
  let ending: Promise<void> = Promise.resolve();
  const listeners = new Set<() => void>();
  const renewals = new Set<() => void>();
  const awaited = new Set<() => void>();

  const tell = (word: Word) => tabs.tell(word);

  function set(next: SignInState) {
    signIn = next;
    for (const listener of listeners) listener();
  }

  function leave(next: SignInState) {
    access = held = renewing = undefined;
    tunnel = {};
    clearTimeout(timer);
    set(next);
  }

  function take(token: string, endsAt: number, isGiven: boolean) {
    const share = isGiven ? renewGivenAt + renewSpread * random() : renewAt;
    const wait = Math.max(1000, (endsAt - now()) * share);
    access = { token, endsAt, renewAt: now() + wait };
    clearTimeout(timer);
    // Browsers hold timers of hidden tabs back, so token() looks at the time, too.
    timer = setTimeout(() => void refresh().catch(() => {}), wait);
    for (const done of awaited) done();
    return access;
  }

  // Exchanges the cookie of the browser's session, which no script can read.
  async function exchange(audience: "" | "tunnel" = "") {
    const answer = await sessions.createAccessToken({ audience }, { timeoutMs: callLasts });
    const endsAt = answer.expireTime ? timestampMs(answer.expireTime) : now() + 60_000;
    return { token: answer.accessToken, endsAt, session: answer.session };
  }

  /** Exchanges the session that is held, and makes sure that the browser still has it. */
  async function exchangeFor(of: Held, audience: "" | "tunnel" = "") {
    try {
      const { token, endsAt, session } = await exchange(audience);
      if (held !== of) throw nobody();
      if (session && session.id !== of.session) {
        // Somebody has signed in in another tab, maybe as somebody else. Nothing of the page is theirs, so it begins again.
        leave({ state: "unknown" });
        throw new ConnectError("the browser has another session", Code.Aborted);
      }
      return { token, endsAt };
    } catch (error) {
      // Without the hub, people keep what they see; a session that has ended ends here.
      if (ConnectError.from(error).code === Code.Unauthenticated && held === of) leave({ state: "out", wasIn: true });
      throw error;
    }
  }

  /** Asks the other tabs for a new token, and waits for a moment. */
  function asked(session: string): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(late);
        awaited.delete(done);
        resolve();
      };
      const late = setTimeout(done, answerLasts);
      awaited.add(done);
      tell({ kind: "ask", session });
    });
  }

  async function renew(of: Held): Promise<Access> {
    const old = access;
    return tabs.alone(async (hasWaited) => {
      // The tab that was first has a new token now. Its word may still be on the way.
      if (hasWaited && access === old && of.session !== "") await asked(of.session);
      if (held === of && access && access !== old) return access;
      const { token, endsAt } = await exchangeFor(of);
      const next = take(token, endsAt, false);
      tell({ kind: "token", session: of.session, token, endsAt });
      for (const listener of renewals) listener();
      return next;
    });
  }

  // All callers share one exchange.
  function refresh(): Promise<Access> {
    const of = held;
    if (!of) return Promise.reject(nobody());
    if (renewing) return renewing;
    const own = renew(of).finally(() => {
      // After another sign-in it is that one's that runs.
      if (renewing === own) renewing = undefined;
    });
    renewing = own;
    return own;
  }

  function tunnelToken(): Promise<string> {
    const of = held;
    const own = tunnel;
    if (!of) return Promise.reject(nobody());
    if (own.access && own.access.endsAt > now() + endsSoon) return Promise.resolve(own.access.token);
    own.renewing ??= exchangeFor(of, "tunnel")
      .then((next) => {
        own.access = next;
        return next.token;
      })
      .finally(() => {
        delete own.renewing;
      });
    return own.renewing;
  }

  async function begin() {
    const { token, endsAt, session } = await exchange();
    held = { session: session?.id ?? "" };
    take(token, endsAt, false);
    set({ state: "in", person: { name: session?.person ?? "", groups: session?.groups ?? [] } });
  }

  /** Ends the browser's session at the hub. left: the state since the person has left the page. */
  async function end(left: SignInState) {
    try {
      await sessions.signOut({}, { timeoutMs: callLasts });
    } catch (error) {
      const { code } = ConnectError.from(error);
      // Without a session there is nothing to end.
      if (code === Code.Unauthenticated || code === Code.InvalidArgument) return;
      // A person who has signed in meanwhile stays signed in.
      if (signIn === left) set({ state: "out", wasIn: false, isPending: true });
      throw error;
    }
  }

  async function resume() {
    try {
      await begin();
      return true;
    } catch (error) {
      const { code } = ConnectError.from(error);
      // Everything else, such as a hub that does not answer, says nothing about the session.
      if (code !== Code.Unauthenticated && code !== Code.InvalidArgument && code !== Code.PermissionDenied) throw error;
      set({ state: "out", wasIn: false });
      return false;
    }
  }

  tabs.onTold((said) => {
    const word = asWord(said);
    if (!word) return;
    const isOurs = held?.session === word.session;
    switch (word.kind) {
      case "token":
        // Times are whole seconds, so a newer token may end with the older one.
        if (!isOurs || word.token === access?.token || word.endsAt < (access?.endsAt ?? 0)) return;
        take(word.token, word.endsAt, true);
        for (const listener of renewals) listener();
        return;
      case "ask":
        if (isOurs && access && access.renewAt > now())
          tell({ kind: "token", session: word.session, token: access.token, endsAt: access.endsAt });
        return;
      case "in":
        // Who was signed in is so no longer: the browser has one session.
        if (held && !isOurs) leave({ state: "unknown" });
        else if (signIn.state === "out") void resume().catch(() => {});
        return;
      case "out":
        if (isOurs) leave({ state: "out", wasIn: true });
    }
  });

  return {
    async token(audience = "distributor") {
      if (audience === "tunnel") return tunnelToken();
      if (access && access.endsAt > now() + endsSoon) return access.token;
      return (await refresh()).token;
    },

    resume,

    async signIn(proof) {
      await ending;
      await sessions.signIn({ proof });
      try {
        await begin();
      } catch (error) {
        const { code } = ConnectError.from(error);
        // The hub has just made a session, and the browser presents none: it keeps a secure cookie for https alone.
        if (code !== Code.Unauthenticated && code !== Code.InvalidArgument) throw error;
        throw new ConnectError(text.noCookie, Code.FailedPrecondition);
      }
      if (held) tell({ kind: "in", session: held.session });
    },

    async signOut() {
      const last = held;
      if (!last && !(signIn.state === "out" && signIn.isPending)) return;
      leave({ state: "out", wasIn: false });
      // The other tabs leave at once, also where the hub does not answer.
      if (last) tell({ kind: "out", session: last.session });
      const own = end(signIn);
      ending = own.catch(() => {});
      await own;
    },

    expire() {
      if (signIn.state === "in") leave({ state: "out", wasIn: true });
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
