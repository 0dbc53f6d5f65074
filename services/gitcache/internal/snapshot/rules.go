// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/kit/ignore"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

const (
	// rememberRules bounds the ignore files that are kept in memory; rememberSize, of each, what
	// compiling one takes: at the worst sixteen times its length.
	rememberRules = 1000
	rememberSize  = 8 << 10
)

// rules remembers the rules of small ignore files, so that a commit that does not change them does
// not read them. It may be used concurrently.
type rules struct {
	known *lru.Cache[treeKey, *ignore.Rules]
}

func newRules() rules { return rules{newCache[treeKey, *ignore.Rules](rememberRules)} }

// of returns the rules of an ignore file.
func (r rules) of(
	ctx context.Context, uid string, from content.Reader, path string, e content.Entry,
) (*ignore.Rules, error) {
	if e.Kind == content.KindSymlink {
		return nil, &leaves.UnsupportedError{Path: path, Reason: "is a symbolic link; ignore rules have to be in a file"}
	}
	key := treeKey{uid: uid, id: e.ID}
	if parsed, ok := r.known.Get(key); ok {
		return parsed, nil
	}
	file, err := from.Blob(ctx, e.ID)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	text, ok, err := leaves.ReadText(file)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	if !ok {
		return nil, &leaves.UnsupportedError{
			Path: path, Reason: "is longer than 256 KiB, which is the limit for ignore rules",
		}
	}
	parsed := ignore.Parse(text)
	if len(text) <= rememberSize {
		r.known.Add(key, parsed)
	}
	return parsed, nil
}

// isIgnoreFile reports whether an entry of a folder is its ignore file.
func isIgnoreFile(e content.Entry) bool {
	return e.Name == selection.IgnoreFile && e.Kind != content.KindFolder && e.Kind != content.KindSubmodule
}
