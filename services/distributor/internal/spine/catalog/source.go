// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/source"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

type (
	// Source names content of a repository at a ref, and where it lies in the service's tree.
	Source = source.Source
	// Ref selects a commit.
	Ref = source.Ref
	// RefKind is how a Ref selects its commit.
	RefKind = source.RefKind
	// ArtifactLayer selects layers of an OCI artifact.
	ArtifactLayer = source.ArtifactLayer
	// List is a list of strings that can be compared.
	List = source.List
)

// The kinds of refs.
const (
	RefHead   = source.RefHead
	RefBranch = source.RefBranch
	RefTag    = source.RefTag
	RefCommit = source.RefCommit
	RefName   = source.RefName
	RefSemver = source.RefSemver
)

// NewList returns a List of the items.
func NewList(items []string) List { return source.NewList(items) }

// Snapshot is the answer to "what does this source hold".
type Snapshot struct {
	Commit string
	// Version is the tag that the ref selected, for people; see leat.type.v1.Snapshot. Empty: none.
	Version string
	Digest  digest.Digest
	// ContentSize and StoredSize are bytes, uncompressed and as sent.
	ContentSize int64
	StoredSize  int64
	Files       int
}

// Resolution is the state of a source: the last good snapshot, and beside it why it cannot be
// resolved now.
type Resolution struct {
	// Snapshot is nil until the source was resolved for the first time.
	Snapshot *Snapshot
	// Problem is nil while the source can be resolved.
	Problem *Problem
	// ResolvedAt is when Snapshot was last confirmed.
	ResolvedAt time.Time
	// FreshAt orders answers: it is when the mirror that Snapshot comes from was last known to
	// equal the upstream. Zero: that is not known, and the answer counts as newer than those
	// before.
	FreshAt time.Time
}

// digestDigits is how many digits name a version of a chart or an artifact: SHA-256.
const digestDigits = 64

// fits checks what depends on the type of the source's repository.
func fits(field string, s Source, repository *Repository) error {
	kind := cmp.Or(repository.Spec.Type, upstream.TypeGit)
	what := map[upstream.Type]string{
		upstream.TypeGit: "a Git repository", upstream.TypeHelm: "a Helm repository", upstream.TypeOCI: "an OCI repository",
	}[kind]
	name := objectname.Display(repository.Name)
	switch {
	case kind == upstream.TypeHelm && s.Chart == "":
		return fielderr.New(field+".chart", "is required, because %q is %s", name, what)
	case kind != upstream.TypeHelm && s.Chart != "":
		return fielderr.New(field+".chart", "is for Helm repositories, and %q is %s; name the chart's folder with path", name, what)
	case kind != upstream.TypeOCI && s.Layer != (ArtifactLayer{}):
		return fielderr.New(field+".layer", "is for OCI repositories, and %q is %s", name, what)
	case kind != upstream.TypeGit && (s.Ref.Kind == RefBranch || s.Ref.Kind == RefName):
		return fielderr.New(field+".ref."+string(s.Ref.Kind), "is for Git repositories, and %q is %s; select a version by tag or semver, or a digest by commit",
			name, what)
	case kind != upstream.TypeGit && s.Ref.Kind == RefCommit && len(s.Ref.Value) != digestDigits:
		return fielderr.New(field+".ref.commit", "%q is not a whole digest of %d digits, and %q is %s", s.Ref.Value, digestDigits, name, what)
	}
	return nil
}
