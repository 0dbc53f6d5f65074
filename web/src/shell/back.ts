// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Where a person was before the sign-in page. It is in the tab's storage, because a sign-in with a provider leaves the
// page and comes back.

const key = "leat.back";

/**
 * Returns the part of an address below /ui, or undefined. Only such addresses pass: a link to the sign-in page must not
 * lead to another host afterwards, nor to a part of this one that a cluster writes.
 */
export function placeOf(href: string): string | undefined {
  if (!/^\/(?![/\\])/.test(href) || /[\p{Cc}\\]/u.test(href)) return undefined;
  const base = "https://leat.invalid";
  if (!URL.canParse(href, base)) return undefined;
  const url = new URL(href, base);
  if (url.origin !== base || !/^\/ui(\/|$)/.test(url.pathname)) return undefined;
  const path = url.pathname.slice("/ui".length) || "/";
  return path.startsWith("/sign-in") || path.startsWith("//") ? undefined : path + url.search;
}

/** Remembers an address of the router, which begins below /ui. */
export function rememberPlace(href: string): void {
  const place = placeOf(href.startsWith("/ui") ? href : `/ui${href}`);
  try {
    if (place !== undefined) sessionStorage.setItem(key, place);
  } catch {
    // A browser may keep no storage for the page. The person then begins at the problems.
  }
}

/** Returns where to go after the sign-in. */
export function backTo(): { href: string } {
  let kept: string | null = null;
  try {
    kept = sessionStorage.getItem(key);
  } catch {
    // See rememberPlace.
  }
  return { href: `/ui${placeOf(`/ui${kept ?? "/"}`) ?? "/"}` };
}
