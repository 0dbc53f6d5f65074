// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"time"
)

// MirrorPhase is the state of a repository's mirror, as leat.gitcache.v1.RepositoryPhase without
// its prefix.
type MirrorPhase string

// Mirror is the state of a repository's mirror as its owner reports it.
type Mirror struct {
	Phase         MirrorPhase
	Problem       *Problem
	FreshAt       time.Time
	ChangedAt     time.Time
	NextPollAt    time.Time
	DefaultBranch string
	Refs          int32
	DiskBytes     int64
	Epoch         uint64
	Owner         string
	Failures      int32
	Fetches       int64
	// HeldRefs are the full names of refs that are held back: for want of a signature, or because the
	// repository is immutable.
	HeldRefs []string
	// Notices are sentences about the upstream that people should know although nothing has failed.
	Notices []string
}

// Holds reports whether what the source's reference leads to is held back.
func (m Mirror) Holds(s Source) bool {
	name := s.RefName()
	if s.Ref.Kind == RefHead || name == "HEAD" {
		name = m.DefaultBranch
	}
	// A registry's tags have "_" where versions have "+".
	isTagHeld := s.Ref.Kind == RefTag && slices.Contains(m.HeldRefs, strings.ReplaceAll(name, "+", "_"))
	return name != "" && (slices.Contains(m.HeldRefs, name) || isTagHeld)
}
