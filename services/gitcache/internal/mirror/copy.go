// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Copy describes the mirror of one replica to another.
type Copy struct {
	// Fingerprint is that of Content.
	Fingerprint string
	// Content is what the mirror holds. Refs, Head and DefaultBranch are empty where the asker knows the fingerprint.
	Content Content
}

// Fingerprint names what a mirror shows: refs, HEAD and default branch. It is equal for equal ones, on every replica, and
// empty where there is no mirror.
func (c Content) Fingerprint() string {
	if !c.Exists() {
		return ""
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %q\n", c.Head, c.DefaultBranch)
	for _, ref := range c.Refs {
		fmt.Fprintf(hash, "%s %s %q\n", ref.Object, ref.Commit, ref.Name)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
