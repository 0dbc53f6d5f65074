// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"context"
	"fmt"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/store"
)

var _ store.Walker = objects{}

// Reachable implements [store.Walker].
func (o objects) Reachable(ctx context.Context, dir string, tips []string, visit func(id string)) error {
	partial, err := store.IsPartial(dir)
	switch {
	case err != nil:
		return err
	case !partial:
		return o.walk(ctx, dir, tips, visit)
	}
	// The second walk passes over anything that is absent, so the first one makes sure that this is blobs alone.
	if err := o.walk(ctx, dir, tips, visit, "--filter=blob:none"); err != nil {
		return err
	}
	return o.walk(ctx, dir, tips, visit, "--missing=allow-any")
}

func (o objects) walk(ctx context.Context, dir string, tips []string, visit func(id string), options ...string) error {
	run := o.program.command(ctx, dir, append([]string{"rev-list", "--objects", "--no-object-names", "--ignore-missing", "--stdin"}, options...)...)
	run.cmd.Stdin = strings.NewReader(strings.Join(tips, "\n") + "\n")
	stdout, err := run.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	if err := run.start(); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	_, broken := eachLine(stdout, '\n', func(id string) (bool, error) {
		visit(id)
		return true, nil
	})
	if err := run.wait(); err != nil {
		return err
	}
	return broken
}
