// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Bounds of one AllowList. A text is compared with every pattern, in time that grows with the product
// of their lengths.
const (
	maxAllowed      = 256
	maxAllowedBytes = 512
)

// AllowList lists allowed values, as patterns in which * stands for any text without a slash, and
// ** for any text. A nil list allows everything, and an empty one nothing.
type AllowList []string

// Allows reports whether a pattern of the list matches the text, or the list is nil.
func (l AllowList) Allows(text string) bool {
	return l == nil || slices.ContainsFunc(l, func(pattern string) bool { return matches(pattern, text) })
}

// String returns the list for messages.
func (l AllowList) String() string {
	if len(l) == 0 {
		return "none"
	}
	const shown = 5
	if len(l) > shown {
		return strings.Join(l[:shown], ", ") + ", …"
	}
	return strings.Join(l, ", ")
}

// Validate checks the patterns. The error is a *fielderr.Error whose path begins with path.
func (l AllowList) Validate(path string) error {
	return l.ValidateItems(path + ".allow")
}

// ValidateItems is Validate for a list whose own path is path.
func (l AllowList) ValidateItems(path string) error {
	return fielderr.Each(path, "patterns", l, maxAllowed, func(path, pattern string) error {
		switch {
		case pattern == "":
			return fielderr.New(path, "is empty; leave it out, or write ** for everything")
		case len(pattern) > maxAllowedBytes:
			return fielderr.New(path, "has %d bytes; at most %d are allowed", len(pattern), maxAllowedBytes)
		case strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return fielderr.New(path, "%q holds a blank or a control character", pattern)
		case strings.Contains(pattern, "***"):
			return fielderr.New(path, "%q holds more than two stars in a row", pattern)
		}
		return nil
	})
}

// matches reports whether the whole text matches the pattern. reached[i] reports that the pattern
// up to where the loop is accounts for the first i bytes of the text.
func matches(pattern, text string) bool {
	reached := make([]bool, len(text)+1)
	reached[0] = true
	for rest := pattern; rest != ""; {
		if rest[0] != '*' {
			for i := len(text); i > 0; i-- {
				reached[i] = reached[i-1] && text[i-1] == rest[0]
			}
			reached[0], rest = false, rest[1:]
			continue
		}
		tail, crosses := strings.CutPrefix(rest[1:], "*")
		for i := 1; i <= len(text); i++ {
			reached[i] = reached[i] || reached[i-1] && (crosses || text[i-1] != '/')
		}
		rest = tail
	}
	return reached[len(text)]
}

// Limits are the changes that a project allows its services in a cluster. A nil list allows
// everything.
type Limits struct {
	// Namespaces are the namespaces that objects may be in.
	Namespaces AllowList `json:"namespaces,omitzero"`
	// ClusterScopedKinds are KIND.GROUP of objects without a namespace, or KIND for kinds of the group
	// without a name.
	ClusterScopedKinds AllowList `json:"clusterScopedKinds,omitzero"`
	// ServiceAccounts are NAMESPACE/NAME. With a list, a service is never applied as the agent itself.
	ServiceAccounts AllowList `json:"serviceAccounts,omitzero"`
	// ClusterAnnotations are keys of annotations of the cluster that templates see. The hub sets it in
	// plans, and no project's document has it.
	ClusterAnnotations AllowList `json:"clusterAnnotations,omitzero"`
}

// IsZero reports whether everything is allowed.
func (l Limits) IsZero() bool {
	return l.Namespaces == nil && l.ClusterScopedKinds == nil && l.ServiceAccounts == nil && l.ClusterAnnotations == nil
}
