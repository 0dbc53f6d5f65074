// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Content is the content of a mirror as of its last complete fetch. The zero Content means that
// there is no mirror. Its JSON is part of package store's files.
type Content struct {
	Refs Refs `json:"refs"`
	// Head is the commit of the upstream's HEAD; empty when it has none.
	Head string `json:"head,omitempty"`
	// DefaultBranch is the full name of the branch that HEAD points to; empty when the upstream
	// does not tell.
	DefaultBranch string `json:"default_branch,omitempty"`
	// FreshAt is when the mirror was last known to equal the upstream. Zero: there is no mirror.
	FreshAt time.Time `json:"fresh_at"`
	// ChangedAt is when refs last moved.
	ChangedAt time.Time `json:"changed_at"`
	// Epoch is the epoch of the lease under which the content was fetched.
	Epoch uint64 `json:"epoch"`
	// DiskBytes is the size of the mirror on disk, Packs the number of packs that it consists of.
	DiskBytes int64 `json:"-"`
	Packs     int   `json:"-"`
	// Partial: the mirror lacks the content of files that were not needed yet.
	Partial bool `json:"partial,omitempty"`
	// FilledAt is when content was last added to a partial mirror. Zero: it never was.
	FilledAt time.Time `json:"filled_at,omitzero"`
	// Policy is the fingerprint of the verification that the refs have passed, or were held back
	// by. Empty: none was demanded.
	Policy string `json:"policy,omitempty"`
	// Notices are sentences about the upstream that people should know although nothing is wrong with
	// the mirror, at most MaxNotices. Every fetch finds them again, so no copy has them.
	Notices []string `json:"-"`
}

// Exists reports whether there is a mirror at all.
func (c Content) Exists() bool { return !c.FreshAt.IsZero() }

// Newer reports whether c was seen at the upstream after other, or has had blobs added since. A
// higher epoch wins over a later time: clocks differ, and the owner before may have written after
// it lost the lease.
func (c Content) Newer(other Content) bool {
	if c.Epoch != other.Epoch {
		return c.Epoch > other.Epoch
	}
	if !c.FreshAt.Equal(other.FreshAt) {
		return c.FreshAt.After(other.FreshAt)
	}
	return c.Filled() > other.Filled()
}

// Filled returns FilledAt as a number, or 0 for a mirror that was never filled.
func (c Content) Filled() int64 {
	if c.FilledAt.IsZero() {
		return 0
	}
	return c.FilledAt.UnixNano()
}

// Fingerprint names what a mirror shows: its refs and what they deliver, HEAD and default branch,
// and how much of a partial mirror is there. Two replicas whose mirrors show the same have the same
// fingerprint. It is empty where there is no mirror.
func (c Content) Fingerprint() string {
	if !c.Exists() {
		return ""
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %q\n", c.Head, c.DefaultBranch)
	for _, ref := range c.Refs {
		fmt.Fprintf(hash, "%s %s %q\n", ref.Object, ref.Commit, ref.Name)
		if ref.Held != "" {
			fmt.Fprintf(hash, "held %s %s %q\n", ref.GoodObject, ref.GoodCommit, ref.Held)
		}
	}
	if c.Partial {
		fmt.Fprintf(hash, "partial %d\n", c.Filled())
	}
	if c.Policy != "" {
		fmt.Fprintf(hash, "policy %s\n", c.Policy)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Copy describes the mirror of one replica to another.
type Copy struct {
	// Fingerprint is the fingerprint of Content.
	Fingerprint string
	// Content is the content of the mirror. Refs, Head and DefaultBranch are empty where the replica
	// that asks knows the fingerprint.
	Content Content
	// Generation is the one that the files belong to; empty where the replica that asks knows the
	// fingerprint.
	Generation string
	Files      []File
	// Doubted: this replica's own mirror was found damaged, or what it holds is unknown. Every byte
	// of it is verified before any is kept.
	Doubted bool
}

// File is an immutable file of a mirror.
type File struct {
	Name   string
	Size   int64
	Digest string // sha256:…
}

var errFalseCopy = errors.New("another replica's mirror does not have the fingerprint that it claims")

// Check returns an error unless the refs arrived as they were sent.
func (c Copy) Check() error {
	if !c.Content.Exists() || c.Content.Fingerprint() != c.Fingerprint {
		return errFalseCopy
	}
	return nil
}
