// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type FormEvent, useEffect, useRef, useState } from "react";
import type { GetSignInMethodsResponse } from "../../gen/leat/fleet/v1/session_pb";
import { type Failure, failureOf } from "../../hub/failure.ts";
import { useHub } from "../../hub/hub.ts";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { Notice } from "../../parts/states.tsx";
import { backTo } from "../../shell/back.ts";
import { Mark, useSignIn, useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import { signInText } from "../../text/sign-in.ts";
import styles from "./page.module.css";

/**
 * Takes the one-time code of a signed-in link out of the address, before anything else reads it. The history and a
 * reload do not have it, and the fragment never went to a server.
 */
function takeCode(): string | undefined {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (location.hash !== "") history.replaceState(history.state, "", location.pathname + location.search);
  return code ?? undefined;
}

/** SignInPage has every way in: a link with a code, a provider, an API token. */
export function SignInPage() {
  useTitle(signInText.signIn);
  const hub = useHub();
  const signIn = useSignIn();
  const [code] = useState(takeCode);
  const [methods, setMethods] = useState<GetSignInMethodsResponse>();
  const [isHubAway, setHubAway] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const [isCodeRefused, setCodeRefused] = useState(false);
  const [isEmpty, setEmpty] = useState(false);
  const [isBusy, setBusy] = useState(code !== undefined);
  const redeemed = useRef(false);
  const field = useRef<HTMLInputElement>(null);

  useEffect(() => {
    const ended = new AbortController();
    hub.sessions
      .getSignInMethods({}, { signal: ended.signal })
      .then(setMethods)
      .catch(() => {
        if (!ended.signal.aborted) setHubAway(true);
      });
    return () => ended.abort();
  }, [hub]);

  useEffect(() => {
    if (redeemed.current) return;
    redeemed.current = true;
    if (code) {
      hub.tokens.signIn({ case: "code", value: code }).catch((error: unknown) => {
        setBusy(false);
        const why = failureOf(error);
        if (why.kind === "unreachable" || why.kind === "busy") setFailure(why);
        else setCodeRefused(true);
      });
    } else if (hub.tokens.current().state === "unknown") {
      // Somebody who has a session already needs no sign-in page.
      hub.tokens.resume().catch(() => {});
    }
  }, [hub, code]);

  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    setFailure(undefined);
    setCodeRefused(false);
    setEmpty(token === "");
    if (token === "") {
      field.current?.focus();
      return;
    }
    setBusy(true);
    hub.tokens.signIn({ case: "apiToken", value: token }).catch((error: unknown) => {
      setBusy(false);
      setFailure(failureOf(error));
      field.current?.focus();
      field.current?.select();
    });
  };

  const providers = methods?.methods ?? [];
  return (
    <div className={styles.page}>
      <div className={styles.card}>
        <div className={styles.head}>
          <Mark size={36} />
          <h1>{text.product}</h1>
          <p>{signInText.signInLead}</p>
        </div>
        <div aria-live="polite" className={styles.messages}>
          {signIn.state === "out" && signIn.wasIn && !failure && (
            <Notice tone="idle" icon="clock" title={signInText.sessionEnded} />
          )}
          {signIn.state === "out" && signIn.isPending && (
            <Notice tone="bad" icon="offline" title={signInText.notSignedOut}>
              <Button onClick={() => hub.tokens.signOut().catch(() => {})}>{signInText.signOutAgain}</Button>
            </Notice>
          )}
          {isCodeRefused && <Notice tone="bad" icon="cross" title={signInText.codeUsed} />}
          {isHubAway && !failure && <Notice tone="warn" icon="offline" title={signInText.methodsFailed} />}
          {failure && (
            <Notice
              tone="bad"
              icon="cross"
              title={failure.kind === "unreachable" ? text.failureTitle.unreachable : failure.message}
            >
              {failure.kind === "unreachable" && <p>{text.failureAdvice.unreachable}</p>}
            </Notice>
          )}
        </div>
        {providers.length > 0 && methods && (
          <>
            <ul className={styles.providers}>
              {providers.map((provider) => (
                <li key={provider.name}>
                  <a className={styles.provider} href={providerUrl(methods.loginUrl, provider.name)}>
                    {signInText.signInWith(provider.title)}
                  </a>
                </li>
              ))}
            </ul>
            <div className={styles.or}>
              <span>{signInText.or}</span>
            </div>
          </>
        )}
        <form className={styles.form} onSubmit={submit} noValidate>
          {/* Password managers store a secret under a name. */}
          <input
            className="unseen"
            type="text"
            name="username"
            autoComplete="username"
            value="leat"
            readOnly
            tabIndex={-1}
            aria-hidden="true"
          />
          <label htmlFor="token">{signInText.apiToken}</label>
          <input
            ref={field}
            id="token"
            name="password"
            type="password"
            autoComplete="current-password"
            spellCheck={false}
            aria-invalid={isEmpty || failure !== undefined || undefined}
            aria-describedby="token-help"
          />
          <p id="token-help" className={isEmpty ? styles.wrong : styles.help}>
            {isEmpty ? signInText.apiTokenEmpty : signInText.apiTokenHelp}
          </p>
          <Button type="submit" kind={providers.length > 0 ? "plain" : "primary"} busy={isBusy}>
            {isBusy ? text.signingIn : signInText.signIn}
          </Button>
        </form>
      </div>
      <div className={styles.foot}>
        <Command label={signInText.linkCommand}>leat ui</Command>
      </div>
    </div>
  );
}

/**
 * Returns the address at which a sign-in with the provider begins. It is one of the hub's own pages, and leads back to
 * where the person wanted to be.
 */
function providerUrl(loginUrl: string, name: string): string {
  if (!URL.canParse(loginUrl, location.origin)) return "/login";
  const url = new URL(loginUrl, location.origin);
  const { href } = backTo();
  return `${url.pathname}?${new URLSearchParams({ provider: name, return: isReturned(href) ? href : "/ui/" })}`;
}

/** Reports whether the hub leads back to an address. It refuses paths that could be read in two ways. */
function isReturned(href: string): boolean {
  try {
    const [path = ""] = href.split("?");
    return !/\\|\.\.|\/\//.test(decodeURIComponent(path)) && !href.includes("\\");
  } catch {
    return false;
  }
}
