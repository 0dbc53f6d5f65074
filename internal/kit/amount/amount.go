// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package amount words numbers of things for people.
package amount

import (
	"fmt"
	"strings"
)

// Of returns a number with its noun, which is given for one, such as "1 cluster" or "3 repositories".
func Of[N int | int32 | int64](n N, noun string) string {
	switch stem, endsInY := strings.CutSuffix(noun, "y"); {
	case n == 1:
		return "1 " + noun
	case endsInY:
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Are returns the verb for that many things: "is" for one, and else "are".
func Are[N int | int32 | int64](n N) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Have returns the verb for that many owners: "has" for one, and else "have".
func Have[N int | int32 | int64](n N) string {
	if n == 1 {
		return "has"
	}
	return "have"
}
