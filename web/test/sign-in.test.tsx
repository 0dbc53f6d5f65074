// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";
import { createMemoryHistory } from "@tanstack/react-router";
import { beforeEach, expect, test, vi } from "vitest";
import { page, userEvent } from "vitest/browser";
import { App } from "../src/app.tsx";
import { makeRouter } from "../src/shell/router.tsx";
import { type Answers, makeHub, refusal, signedOut } from "./hub.ts";
import { expectAccessible, render } from "./render.tsx";

const secret = "leatpat_0123456789abcdef";

beforeEach(() => {
  sessionStorage.clear();
  localStorage.clear();
  history.replaceState(null, "", location.pathname + location.search);
});

function open(path: string, change: Partial<Answers> = {}) {
  const { hub, answers } = makeHub({ sessions: signedOut(), ...change });
  const router = makeRouter(createMemoryHistory({ initialEntries: [`/ui${path}`] }));
  render(<App hub={hub} router={router} />);
  return { hub, router, answers };
}

const stored = () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]);

test("a person without a session signs in, and comes back to where they were", async () => {
  const { router } = open("/services?filter=web");
  await expect.element(page.getByLabelText("API token")).toBeVisible();
  await expect.element(page.getByRole("link", { name: "Continue with Example Corp" })).toBeVisible();
  await expectAccessible();
  await page.getByLabelText("API token").fill(secret);
  await userEvent.keyboard("{Enter}");
  await expect.element(page.getByRole("heading", { level: 1, name: "Services" })).toBeVisible();
  expect(router.state.location.search).toEqual({ filter: "web" });
  expect(stored()).not.toContain(secret);
  expect(stored()).not.toContain("a.b.c");
});

const asked = "/ui/services/shop@edge?tab=revisions&filter=a%20b";

test.each([
  [asked, asked],
  ["/ui/resources/..%5c..%2f%2fevil.example", "/ui/"], // the hub refuses what can be read in two ways
  ["/ui/100%", "/ui/"],
])("a sign-in with a provider that begins at %s leads back to %s", async (place, back) => {
  sessionStorage.setItem("leat.back", place.slice("/ui".length));
  open("/sign-in");
  const link = page.getByRole("link", { name: "Continue with Example Corp" });
  await expect.element(link).toBeVisible();
  const url = new URL(link.element().getAttribute("href") ?? "", location.origin);
  expect([url.pathname, url.searchParams.get("return")]).toEqual(["/login", back]);
});

test("a browser with a session needs no sign-in", async () => {
  open("/sign-in", { sessions: {} });
  await expect.element(page.getByRole("button", { name: "Signed in as ada" })).toBeVisible();
});

test("a token that the hub refuses has the hub's words", async () => {
  open("/sign-in", {
    sessions: {
      ...signedOut(),
      signIn: () => {
        throw refusal(Code.Unauthenticated, "TOKEN_INVALID", "the API token has expired");
      },
    },
  });
  await page.getByLabelText("API token").fill("old");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect.element(page.getByText("the API token has expired")).toBeVisible();
  await expect.element(page.getByLabelText("API token")).toHaveFocus();
  await expectAccessible();
});

test("an empty field is not sent", async () => {
  const signIn = vi.fn(() => ({}));
  open("/sign-in", { sessions: { ...signedOut(), signIn } });
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect.element(page.getByText("Paste a token first.")).toBeVisible();
  expect(signIn).not.toHaveBeenCalled();
});

test("the code of a signed-in link leaves the address at once, and signs in", async () => {
  history.replaceState(null, "", "#code=one-time");
  const hub = signedOut("grace");
  const signIn = vi.fn((_: { proof: { value?: string | undefined } }) => hub.signIn());
  open("/sign-in", { sessions: { ...hub, signIn } });
  await expect.element(page.getByRole("button", { name: "Signed in as grace" })).toBeVisible();
  expect(location.hash).toBe("");
  expect(signIn).toHaveBeenCalledTimes(1);
  expect(signIn.mock.calls[0]?.[0].proof.value).toBe("one-time");
  expect(stored()).not.toContain("one-time");
  expect(stored()).not.toContain("leatses_");
});

test("a code that was used leaves the other ways", async () => {
  history.replaceState(null, "", "#code=used");
  open("/sign-in", {
    sessions: {
      ...signedOut(),
      signIn: () => {
        throw refusal(Code.Unauthenticated, "TOKEN_INVALID", "the proof of the sign-in is not valid");
      },
    },
  });
  await expect.element(page.getByText("The link has been used", { exact: false })).toBeVisible();
  expect(location.hash).toBe("");
  await expectAccessible();
});

test("a hub that does not answer says so, and takes no password elsewhere", async () => {
  open("/", {
    sessions: {
      createAccessToken: () => {
        throw new ConnectError("", Code.Unavailable);
      },
      getSignInMethods: () => {
        throw new ConnectError("", Code.Unavailable);
      },
    },
  });
  await expect.element(page.getByText("its ways to sign in are not known yet", { exact: false })).toBeVisible();
  await expectAccessible();
});

test("signing out ends the session, and leaves nothing behind", async () => {
  const signOut = vi.fn(() => ({}));
  open("/", { sessions: { signOut } });
  await page.getByRole("button", { name: "Signed in as ada" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect.element(page.getByLabelText("API token")).toBeVisible();
  await vi.waitFor(() => expect(signOut).toHaveBeenCalledTimes(1));
});

test("signing out without an answer of the hub says that the session may go on, and tries again", async () => {
  const signOut = vi.fn<() => object>(() => {
    throw new ConnectError("", Code.Unavailable);
  });
  open("/", { sessions: { signOut } });
  await page.getByRole("button", { name: "Signed in as ada" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  const notice = page.getByText("You may still be signed in", { exact: false });
  await expect.element(notice).toBeVisible();
  await expectAccessible();
  signOut.mockImplementation(() => ({}));
  await page.getByRole("button", { name: "Sign out again" }).click();
  await expect.element(notice).not.toBeInTheDocument();
  await vi.waitFor(() => expect(signOut).toHaveBeenCalledTimes(2));
});

test("a session that the hub has ended leads to the sign-in page, which says so", async () => {
  open("/", {
    sessions: {},
    before: () => {
      throw refusal(Code.Unauthenticated, "TOKEN_INVALID", "the session has ended");
    },
  });
  await expect.element(page.getByText("Your session has ended.", { exact: false })).toBeVisible();
});
