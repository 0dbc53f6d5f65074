// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package submodule finds the repositories that commits name as their submodules, and has them
// mirrored.
//
// A submodule becomes a repository of its own in the registry, owned, fetched, followed and kept
// like any other, that belongs to the repository whose bundles need it: its root. Each root has its
// own, even where two name the same URL: what one root's credential opens is not for another's
// readers. Callers cannot put or delete such a repository; it is changed with its root, and deleted
// with it.
package submodule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// pollInterval is long because a commit names its needs: the mirror is fetched again when it lacks
// that.
const pollInterval = 6 * time.Hour

// Link is a submodule as a commit has it.
type Link struct {
	Root   string // UID of the repository that is bundled
	Parent string // UID of the repository whose commit has the link: Root, or a submodule of it
	Path   string // in the repository that is bundled
	URL    string // as .gitmodules has it; empty: it has none
	Commit string
}

// UnavailableError reports that a submodule cannot be had until something is changed. It may heal
// by a push.
type UnavailableError struct {
	Path, URL, Commit string
	// Said is a sentence on why, and what to do.
	Said string
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("submodule %q at %s of %q is not available: %s", e.Path, e.Commit, e.URL, e.Said)
}

// NotReadyError reports that a submodule is not mirrored yet, and why its fetches fail, if they do.
type NotReadyError struct {
	Path, URL string
	Problem   *mirror.Problem // nil: it is being fetched
}

// Error implements error.
func (e *NotReadyError) Error() string {
	if e.Problem == nil {
		return fmt.Sprintf("submodule %q of %q is not mirrored yet", e.Path, e.URL)
	}
	return fmt.Sprintf("submodule %q of %q is not mirrored: %s", e.Path, e.URL, e.Problem.Message)
}

func (l Link) unavailable(said string) error {
	return &UnavailableError{Path: l.Path, URL: l.shown(), Commit: l.Commit, Said: said}
}

// shown is the URL for people; a password in it is masked.
func (l Link) shown() string {
	if u, err := url.Parse(l.URL); err == nil {
		return u.Redacted()
	}
	return l.URL
}

// derive returns the definition of a submodule's repository. It depends only on the root's
// definition and on settings of the hub, so that every replica derives the same definition and a
// change of the root changes it. The trusted certificates apply only to the host that they were
// given for. So does the credential, and there only to the repositories that [opens] allows.
// Elsewhere the credential that is shared by URL applies, if there is one.
func derive(root mirror.Definition, address string, shared []Prefix) mirror.Definition {
	sum := sha256.Sum256([]byte(root.UID + "\n" + address))
	id := hex.EncodeToString(sum[:])
	def := mirror.Definition{
		Name: root.Name + mirror.SubmoduleMark + id[:16], UID: "submodule-" + id[:32], Version: root.Version, Parent: root.Name, ParentUID: root.UID,
		Definition: upstream.Definition{
			URL: address, PollInterval: pollInterval, ProxyURL: root.ProxyURL, Suspended: root.Suspended,
		},
	}
	if sameHost(root.URL, address) {
		def.CAPEM = root.CAPEM
		if opens(root.URL, address, shared) {
			def.Credential = root.Credential
		}
	}
	return def
}
