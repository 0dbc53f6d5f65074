// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"strings"
)

// Describe names the first three items for a message, and counts the others.
func Describe[T fmt.Stringer](items []T) string {
	const maxNamed = 3
	var names []string
	for _, item := range items[:min(len(items), maxNamed)] {
		names = append(names, item.String())
	}
	text := strings.Join(names, ", ")
	if others := len(items) - maxNamed; others > 0 {
		return fmt.Sprintf("%s and %d more", text, others)
	}
	return text
}
