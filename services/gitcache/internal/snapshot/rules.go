// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"fmt"

	"github.com/leatdev/leat/internal/ignore"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

const (
	// rememberRules bounds the ignore files that are kept in memory; rememberSize, of each, what
	// compiling one takes: at the worst sixteen times its length.
	rememberRules = 1000
	rememberSize  = 8 << 10
)

// rulesOf returns what an ignore file says. Small ones are remembered, so that a commit that does
// not change them costs no look at them.
func (b *Builder) rulesOf(ctx context.Context, uid string, r content.Reader, path string, e content.Entry) (*ignore.Rules, error) {
	if e.Kind == content.KindSymlink {
		return nil, &UnsupportedError{Path: path, Reason: "is a symbolic link; ignore rules have to be in a file"}
	}
	key := treeKey{uid: uid, id: e.ID}
	if rules, ok := b.rules.Get(key); ok {
		return rules, nil
	}
	file, err := r.Blob(ctx, e.ID)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	text, ok, err := readText(file)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	if !ok {
		return nil, &UnsupportedError{Path: path, Reason: "is longer than 256 KiB, which is the limit for ignore rules"}
	}
	rules := ignore.Parse(text)
	if len(text) <= rememberSize {
		b.rules.Add(key, rules)
	}
	return rules, nil
}
