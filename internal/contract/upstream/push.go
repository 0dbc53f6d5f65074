// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"slices"
	"strings"
)

// maxBranchBytes bounds the name of a branch, and a pattern.
const maxBranchBytes = 200

// The author of commits of a repository that names none. The address belongs to nobody: its domain
// cannot be registered (RFC 2606).
const (
	defaultAuthorName  = "Leat"
	defaultAuthorEmail = "leat@noreply.invalid"
)

// Push is which branches of a Git repository the hub may push commits to, and how. The zero Push is
// none.
type Push struct {
	// Branches are names of branches, or patterns in which "*" stands for any text. Empty: the hub
	// pushes nothing.
	Branches List `json:"branches,omitempty"`
	// AuthorName and AuthorEmail are the author of commits. Empty: see [Push.Author].
	AuthorName  string `json:"author_name,omitempty"`
	AuthorEmail string `json:"author_email,omitempty"`
	// Forge is the kind of the server that opens pull requests. Empty: by the host, if everybody knows
	// it.
	Forge Forge `json:"forge,omitempty"`
	// APIURL is the base of its API. Empty: derived from the repository's URL.
	APIURL string `json:"api_url,omitempty"`
}

// Forge is a kind of server with pull requests.
type Forge string

// The forges.
const (
	ForgeGitHub Forge = "github"
	ForgeGitLab Forge = "gitlab"
	ForgeGitea  Forge = "gitea" // Forgejo, too
)

// Author returns the name and the address of the author of commits.
func (p Push) Author() (name, email string) {
	return cmp.Or(p.AuthorName, defaultAuthorName), cmp.Or(p.AuthorEmail, defaultAuthorEmail)
}

// Allows reports whether the hub may push to a branch, whose name has no refs/heads/.
func (p Push) Allows(branch string) bool {
	return ValidBranch(branch) && slices.ContainsFunc(p.Branches.Names(), func(pattern string) bool { return matches(pattern, branch) })
}

// matches reports whether name is pattern with some text in the place of every "*". The first part
// of the pattern begins the name, and the last one ends it. Every other part takes the leftmost
// place that it has: where a name matches at all, it matches so. The work therefore grows with the
// length alone.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	name, isBegun := strings.CutPrefix(name, parts[0])
	if !isBegun {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return strings.HasSuffix(name, parts[last])
}

// ValidBranch reports whether name, without refs/heads/, is the name of a branch that Git accepts
// (see git-check-ref-format), and one that no program takes for an option or another ref.
func ValidBranch(name string) bool {
	if name == "" || len(name) > maxBranchBytes || name == "HEAD" || strings.HasPrefix(name, "refs/") || strings.HasPrefix(name, "-") ||
		strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "@" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
