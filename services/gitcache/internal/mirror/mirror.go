// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package mirror has the words of gitcache: what a repository is defined as, what a mirror of it
// holds, what a selector selects there, the state and the events of its owner, and why things fail.
//
// It holds values and ports, and runs nothing. Values are comparable or never changed once made.
// Package mirroring runs the repositories of a replica; adapters implement the ports: [Backend],
// [Registry], [EventLog], [Peers], [Replicas], [Objects] and [Named].
package mirror

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/leatdev/leat/internal/contract/upstream"
)

// SharedCredential is for all repositories whose URL begins with a prefix, unless they have their
// own.
type SharedCredential struct {
	upstream.Credential
	// CAPEM are the certificates to trust where the credential is sent. Empty: the system's.
	CAPEM string
	// Prefix is the prefix, as a person wrote it.
	Prefix string
}

// Definition is everything that a replica needs to mirror a repository: what its owner wants, and
// which repository it is. It is a comparable value.
type Definition struct {
	// Name is unique among the repositories known now.
	Name string `json:"-"`
	// UID is never used again: a new UID under an old name is another repository.
	UID string `json:"uid"`
	// Version grows with every change of the definition.
	Version int64 `json:"version"`
	upstream.Definition
	// Parent and ParentUID belong to the repository that this one is a submodule of. Empty: it is not
	// a submodule.
	Parent    string `json:"parent,omitempty"`
	ParentUID string `json:"parent_uid,omitempty"`
}

// Root answers for the repository that submodules belong to: where they may lead.
type Root struct {
	// URL is the repository's own.
	URL string
	// PublicOnly is the repository's own, and holds for its submodules.
	PublicOnly bool
}

var uidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// IsUID reports whether text can be a repository's UID. A UID can name a folder, and does not lead
// out of its parent folder.
func IsUID(text string) bool { return uidForm.MatchString(text) }

// Folder returns the folder of the repository with a UID below dir.
func Folder(dir, uid string) (string, error) {
	if !IsUID(uid) {
		return "", fmt.Errorf("repository uid %q cannot name a folder", uid)
	}
	return filepath.Join(dir, uid), nil
}

// SubmoduleMark is part of the names of submodules' repositories, and in no other name: those are
// paths of package objectname, which have letters, digits, dashes and a dot.
const SubmoduleMark = "~"

// PlacementKey decides which replicas should have the repository. A repository and its submodules
// have one key, because a bundle needs them together.
func (d Definition) PlacementKey() string {
	if d.ParentUID != "" {
		return d.ParentUID
	}
	return d.UID
}
