// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gogit mirrors Git repositories without the git executable: packs are stored by package
// pack, and large files are opened with go-git. It knows names by SHA-1 alone.
package gogit

import (
	"context"
	"path/filepath"

	"github.com/leatdev/leat/services/gitcache/internal/backend"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// Config sets where mirrors are, and how upstreams are reached.
type Config = backend.Config

// Git keeps mirrors under one folder. It may be used concurrently.
type Git = backend.Backend

// New makes the folder for mirrors and returns a Git on it.
func New(cfg Config) (*Git, error) {
	if cfg.Memory == nil {
		cfg.Memory = memory.NewBudget(0)
	}
	return backend.New(cfg, tools{memory: cfg.Memory})
}

// tools implements [backend.Tools].
type tools struct{ memory *memory.Budget }

// IsFull returns false: see [pack.Receive].
func (tools) IsFull() bool { return false }

// Keep implements [backend.Tools].
func (t tools) Keep(ctx context.Context, a backend.Arrival) error {
	_, err := pack.Receive(ctx, filepath.Join(a.Dir, "objects", "pack"), a.Pack, t.memory)
	return err
}
