// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitbin mirrors Git repositories with the git executable.
//
// Its promises:
//
//   - git itself never sees an upstream, a credential or the name of a ref. It checks and stores
//     packs and opens large files, and is given folders and ids alone.
//   - A process of git inherits no setting and no secret, reads no configuration except the
//     mirror's own, and runs no hook. It ends with the call that it serves, and so does what it
//     started.
//   - Indexing a pack waits for memory. Where the system can bound the memory of a process, git
//     cannot take more than the budget.
//
// Every call starts processes of its own, so there is no state and no lock.
package gitbin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/backend"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
)

// The oldest git that is known to support this use.
const (
	oldestMajor = 2
	oldestMinor = 39

	versionTimeout = 10 * time.Second
	// leastMemory is the least memory of one git process, even if the budget for all packs is
	// smaller. Git has caches that are not for packs.
	leastMemory = 256 << 20
)

// Config sets where mirrors are, and which git to use.
type Config = backend.Config

// Git keeps mirrors under one folder. It may be used concurrently.
type Git = backend.Backend

// New finds git, makes the folder for mirrors and returns a Git on it.
func New(cfg Config) (*Git, error) {
	if cfg.Executable == "" {
		cfg.Executable = "git"
	}
	path, err := exec.LookPath(cfg.Executable)
	if err != nil {
		return nil, fmt.Errorf("find git, which the back end git needs in version %d.%d or newer: %w", oldestMajor, oldestMinor, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	if cfg.Memory == nil {
		cfg.Memory = memory.NewBudget(0)
	}
	p := program{path: path, home: os.DevNull, budget: cfg.Memory}
	if err := p.checkVersion(); err != nil {
		return nil, err
	}
	p.memory = max(cfg.Memory.Limit(), leastMemory)
	return backend.New(cfg, p)
}

func (p program) checkVersion() error {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	said, err := p.output(ctx, "", nil, "version")
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", p.path, err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(said, "git version %d.%d", &major, &minor); err != nil {
		return fmt.Errorf("%s says that it is %q, not git", p.path, said)
	}
	if major < oldestMajor || (major == oldestMajor && minor < oldestMinor) {
		return fmt.Errorf("%s is git %d.%d: the back end git needs %d.%d or newer", p.path, major, minor, oldestMajor, oldestMinor)
	}
	return nil
}
