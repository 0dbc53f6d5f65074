// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// maxLine is the number of characters of one text of an object in a report.
const maxLine = 300

// Line returns a text of an object as part of a line for people.
func Line(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if shown := []rune(text); len(shown) > maxLine {
		return string(shown[:maxLine]) + "…"
	}
	return text
}

// unnamed is everything that a DNS label cannot have.
var unnamed = regexp.MustCompile(`[^a-z0-9]+`)

// Label returns a DNS label that is as close to a text as possible. Empty: the text has no letter and no digit.
func Label(text string) string {
	text = strings.Trim(unnamed.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(text) > objectname.MaxLabel {
		text = strings.TrimRight(text[:objectname.MaxLabel], "-")
	}
	return text
}

// names gives each thing a name of its own. It has the next number to try for each name that is taken, so that many
// things of one name do not try all numbers again.
type names map[string]int

// unique returns the first candidate that is free, or the last one with a number. It takes it.
func (n names) unique(candidates ...string) string {
	for _, c := range candidates {
		if c != "" && n[c] == 0 {
			n[c] = 2
			return c
		}
	}
	last := candidates[len(candidates)-1]
	if last == "" {
		last = "unnamed"
	}
	for number := max(n[last], 2); ; number++ {
		suffix := fmt.Sprintf("-%d", number)
		if name := strings.TrimRight(last[:min(len(last), objectname.MaxLabel-len(suffix))], "-") + suffix; n[name] == 0 {
			n[name], n[last] = 2, number+1
			return name
		}
	}
}
