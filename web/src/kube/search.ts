// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

/** Matcher reports whether a line is to be shown. */
export type Matcher = (text: string) => boolean;

/** Search is a filter of lines: a function that matches, or why the filter cannot be used. */
export type Search = { matches: Matcher } | { objection: string };

/** Letters match in both cases, unless the filter has a capital one. */
const foldsCase = (filter: string) => filter === filter.toLowerCase();

/** Returns the search for a text. */
export function searchText(filter: string): Search {
  const folds = foldsCase(filter);
  return { matches: (text) => (folds ? text.toLowerCase() : text).includes(filter) };
}

/**
 * Returns the search for a regular expression of RE2, whose time is in proportion to the text, whatever both are. The
 * browser's own can take forever, and here the expression comes with a link and the text from a cluster. Few people need
 * it, so it is loaded when it is first asked for.
 */
export async function searchExpression(filter: string): Promise<Search> {
  const { RE2JS } = await import("re2js");
  try {
    const expression = RE2JS.compile(filter, foldsCase(filter) ? RE2JS.CASE_INSENSITIVE : 0);
    return { matches: (text) => expression.test(text) };
  } catch (thrown) {
    const words = thrown instanceof Error ? thrown.message : String(thrown);
    // RE2JS writes the flag for both cases in front of the expression.
    return { objection: words.replace(/^error parsing regexp: /, "").replace("`(?i)", "`") };
  }
}
