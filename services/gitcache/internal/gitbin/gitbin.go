// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitbin mirrors Git repositories with the git executable.
//
// Package uploadpack talks to upstreams, and package store keeps what comes from there on disk: git
// itself never sees an upstream, a credential or the name of a ref. It stores packs and reads
// objects, as child processes that get ids alone, read no configuration but the mirror's own, and
// end with the call that they serve.
package gitbin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/store"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// The oldest git that is known to do what is asked of it here.
const (
	oldestMajor = 2
	oldestMinor = 39

	versionTimeout = 10 * time.Second
	// leastMemory is the least memory of one git process, even if the budget for all packs is
	// smaller. Git has caches that are not for packs.
	leastMemory = 256 << 20
)

// Config says where mirrors are, and which git to use.
type Config struct {
	// Dir holds one folder per repository. It is made if it does not exist.
	Dir string
	// Readers bounds how many readers are open at once. Zero: 8.
	Readers int
	// Executable is git's name or path. Empty: "git", as PATH finds it.
	Executable string
	// Hosts bounds what goes to each host. Nil: the defaults of [hostgate.Config].
	Hosts *hostgate.Gate
	// Credentials are for definitions that have none. Nil: there are none.
	Credentials uploadpack.Credentials
	// Proxy is asked for the proxy of HTTP upstreams whose definition has none. Nil:
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Guard and Root are those of [uploadpack.Config].
	Guard dialguard.Guard
	Root  func(uid string) (url string, ok bool)
	// Memory admits packs that git indexes. Nil: a budget of its default size.
	Memory *memory.Budget
	// MirrorDisk bounds the bytes of all mirrors. Zero: only the disk does.
	MirrorDisk int64
	// Agent is what upstreams are told about this client. Empty: as [uploadpack.Config] has it.
	Agent  string
	Logger *slog.Logger
}

// Git keeps mirrors under one folder. It may be used concurrently.
type Git struct {
	*store.Store
	*uploadpack.Client
	program program
	memory  *memory.Budget
	logger  *slog.Logger
}

var _ mirror.Backend = (*Git)(nil)

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
	p := program{path: path, home: os.DevNull}
	if err := p.checkVersion(); err != nil {
		return nil, err
	}
	if cfg.Memory == nil {
		cfg.Memory = memory.NewBudget(0)
	}
	p.memory = max(cfg.Memory.Limit(), leastMemory)
	mirrors, err := store.New(store.Params{
		Dir: cfg.Dir, Readers: cfg.Readers, Large: p.openLarge, SHA256: true, Partial: true, Logger: cfg.Logger,
		Limits: store.Limits{Memory: cfg.Memory, DiskBytes: cfg.MirrorDisk, Fault: nil},
	})
	if err != nil {
		return nil, err
	}
	client := uploadpack.New(uploadpack.Config{
		Dir: cfg.Dir, Hosts: cfg.Hosts, Credentials: cfg.Credentials, Proxy: cfg.Proxy, Guard: cfg.Guard, Root: cfg.Root,
		Agent: cfg.Agent, Version2: true,
	})
	return &Git{Store: mirrors, Client: client, program: p, memory: cfg.Memory, logger: cfg.Logger}, nil
}

var versionForm = regexp.MustCompile(`^git version (\d+)\.(\d+)`)

func (p program) checkVersion() error {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	said, err := p.output(ctx, "", "version")
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", p.path, err)
	}
	words := versionForm.FindStringSubmatch(said)
	if words == nil {
		return fmt.Errorf("%s says that it is %q, not git", p.path, said)
	}
	major, err1 := strconv.Atoi(words[1])
	minor, err2 := strconv.Atoi(words[2])
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("read the version of git: %w", err)
	}
	if major < oldestMajor || (major == oldestMajor && minor < oldestMinor) {
		return fmt.Errorf("%s is git %d.%d: the back end git needs %d.%d or newer", p.path, major, minor, oldestMajor, oldestMinor)
	}
	return nil
}
