// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// MirrorPhase is the state of a repository's mirror, as leat.gitcache.v1.RepositoryPhase without its prefix.
type MirrorPhase string

// Mirror is what the owner of a repository's mirror says of it.
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
}
