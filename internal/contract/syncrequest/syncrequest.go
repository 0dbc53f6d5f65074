// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package syncrequest is the form of sync requests: texts that the hub makes, and agents compare. Each
// is made once.
package syncrequest

import (
	"crypto/rand"
	"strings"
)

// regenerate begins requests that want more than a sync. Agents that do not know it sync.
const regenerate = "regenerate."

// New returns a request. With regenerates, what templates have generated for the service, such as
// passwords, is to be generated again.
func New(regenerates bool) string {
	if regenerates {
		return regenerate + rand.Text()
	}
	return rand.Text()
}

// Regenerates reports whether a request wants values generated again.
func Regenerates(request string) bool { return strings.HasPrefix(request, regenerate) }
