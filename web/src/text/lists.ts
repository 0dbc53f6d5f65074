// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// The words of lists of the fleet, which the front page has not.

export const lists = {
  filterHelp: "How filters work",
  filterHelpRows: [
    ["text", "the name, project, cluster, namespace, repository, URL or message contains it"],
    ["name=web*", "a field has the value; * is any text, ? any character; a comma separates values"],
    ["cluster.label.region!=eu", "no value is equal"],
    ["message~quota", "a value contains the text"],
    ["since>2h", "it is so for longer, or by < for less"],
    ["drifted=true", "also synced, paused and pinned"],
  ] as [string, string][],
  rangeTooLong: "The range is longer than what is loaded. Select all that match, or narrow the filter.",
};
