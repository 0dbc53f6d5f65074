// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Copy describes the mirror of one replica to another.
type Copy struct {
	// Fingerprint is that of Content.
	Fingerprint string
	// Content is what the mirror holds. Refs, Head and DefaultBranch are empty where the asker knows the fingerprint.
	Content Content
	// Generation is what the files belong to; empty where the asker knows the fingerprint.
	Generation string
	Files      []File
	// Doubted: what this replica's own mirror holds was found damaged, or is not known, and is looked at byte by byte
	// before any of it is kept.
	Doubted bool
}

// File is an immutable file of a mirror.
type File struct {
	Name   string
	Size   int64
	Digest string // sha256:…
}

// Copies are the mirrors on this replica's disk as files, which replicas copy from one another.
type Copies interface {
	// Export lists the files of a mirror. ErrNoMirror: there is none.
	Export(ctx context.Context, uid string) (generation string, files []File, err error)
	// OpenFile opens one of them. ErrNoMirror: the generation is gone, or never had that file.
	OpenFile(ctx context.Context, uid, generation, name string) (io.ReadCloser, error)
	// Adopt makes the mirror of that UID hold what c describes, and durably so. It opens only the files that the mirror
	// lacks, believes nothing before it is verified, and leaves the mirror as it was where there is an error.
	Adopt(ctx context.Context, uid string, c Copy, open func(context.Context, File) (io.ReadCloser, error)) (Content, error)
	// Confirm keeps that the mirror was known to equal the upstream at content's FreshAt and Epoch.
	Confirm(ctx context.Context, uid string, content Content) error
}

var errFalseCopy = errors.New("another replica's mirror does not have the fingerprint that it claims")

// check makes sure that refs arrived as they were sent.
func (c Copy) Check() error {
	if !c.Content.Exists() || c.Content.Fingerprint() != c.Fingerprint {
		return errFalseCopy
	}
	return nil
}

// Fingerprint names what a mirror shows: refs, what of them is delivered, HEAD and default branch, and how much of a partial
// mirror is there. It is equal for equal ones, on every replica, and empty where there is no mirror.
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
