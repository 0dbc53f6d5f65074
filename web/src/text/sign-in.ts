// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// The words of signing in. They are a part of the catalog that is loaded with that page.

export const signInText = {
  signIn: "Sign in",
  signInLead: "One view of your clusters, and of what runs in them.",
  signInWith: (title: string) => `Continue with ${title}`,
  or: "or",
  apiToken: "API token",
  apiTokenHelp:
    "leat create token makes one. This browser keeps a session for it, not the token, for 12 hours at most.",
  apiTokenEmpty: "Paste a token first.",
  codeUsed: "The link has been used, or is too old. Make another one, or sign in below.",
  sessionEnded: "Your session has ended. Sign in again to continue where you were.",
  notSignedOut: "You may still be signed in: the hub did not confirm that your session has ended.",
  signOutAgain: "Sign out again",
  methodsFailed: "The hub does not answer, so its ways to sign in are not known yet.",
  linkCommand: "A signed-in link",
};
