// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gitconfig"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// readConfig reads a file with settings in the commit's root; there may be none.
func readConfig(ctx context.Context, r content.Reader, commit, name string) ([]gitconfig.Setting, error) {
	file, err := r.File(ctx, commit, name)
	if errors.Is(err, content.ErrPathNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, ok, err := leaves.ReadText(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s is longer than 256 KiB", gitconfig.ErrSyntax, name)
	}
	return gitconfig.Parse(string(text))
}
