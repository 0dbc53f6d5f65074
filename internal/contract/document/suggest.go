// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"
)

// Suggest returns `; did you mean "…"?` for the candidate nearest to word, or "" if none is near.
func Suggest(word string, candidates []string) string {
	best, least := "", len(word)/3+1
	for _, candidate := range candidates {
		distance := editDistance(plain(word), plain(candidate))
		if distance < least || distance == least && best == "" {
			best, least = candidate, distance
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// plain makes poll_interval, poll-interval and pollInterval equal.
func plain(word string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(word))
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours that turn a
// into b.
func editDistance(a, b string) int {
	const limit = 64 // no field is that long, and the time grows with the square
	if len(a) > limit || len(b) > limit {
		return limit
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
