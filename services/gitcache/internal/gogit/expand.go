// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// Expand implements [content.Reader]. Only commits count: a tree or a blob of the same beginning makes no id ambiguous.
func (r *reader) Expand(ctx context.Context, prefix string) (string, error) {
	whole, err := hex.DecodeString(prefix[:len(prefix)&^1]) // the index is searched by bytes, of two digits each
	if err != nil {
		return "", fmt.Errorf("%w: %q is no commit id", content.ErrCommitNotFound, prefix)
	}
	objects, err := r.storage.HashesWithPrefix(whole)
	if err != nil {
		return "", fmt.Errorf("search commits %s: %w", prefix, err)
	}
	var commits []string
	for _, object := range objects {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		id := object.String()
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		if _, err := r.storage.EncodedObject(plumbing.CommitObject, object); err == nil {
			commits = append(commits, id)
		}
	}
	slices.Sort(commits)
	commits = slices.Compact(commits) // an object may be in more than one pack
	switch len(commits) {
	case 0:
		return "", fmt.Errorf("%w: %s", content.ErrCommitNotFound, prefix)
	case 1:
		return commits[0], nil
	}
	return "", &content.AmbiguousError{Prefix: prefix, Candidates: commits[:min(len(commits), content.MaxCandidates)]}
}
