// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gogit mirrors Git repositories with go-git: full history, bare, one folder per repository.
//
// It speaks the upload-pack protocol itself, over smart HTTP and SSH, with go-git's encodings: one session lists the refs
// and, if any moved, fetches what is missing. That leaves redirects, credentials, ambient configuration, capabilities and
// the guard before every byte in one place, and go-git's process-wide settings alone.
//
// On disk a repository is <dir>/<uid>/state.json, which names a generation, and <dir>/<uid>/gen-…/, a bare repository
// that the git command can read too. The state is written last, atomically, after everything it names is durable.
package gogit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	defaultReaders     = 8
	readerCache        = 8 << 20 // bytes of objects; trees are read once, a larger one buys little
	largeObject        = 4 << 20 // blobs above are streamed instead of read into memory
	defaultMaxAdvert   = 256 << 20
	generationPattern  = "gen-"
	temporaryPattern   = "tmp-"
	temporaryPackStart = "tmp_pack_"
)

// Config says where mirrors are and how many may be read at once.
type Config struct {
	// Dir holds one folder per repository. It is made if it does not exist.
	Dir string
	// Readers bounds how many readers are open at once. Zero: 8.
	Readers int
	// Hosts bounds what goes to each host. Nil: the defaults of [hostgate.Config].
	Hosts *hostgate.Gate
	// Credentials are for definitions that have none. Nil: there are none.
	Credentials Credentials
	// Proxy is asked for the proxy of HTTP upstreams whose definition has none. Nil: http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Agent is what upstreams are told about this client, such as "git/2.0 (leat)". Empty: that.
	Agent  string
	Logger *slog.Logger
}

// Credentials are given by URL. For may be called concurrently.
type Credentials interface {
	// For returns the credential for a repository's URL; false: there is none.
	For(url string) (mirror.SharedCredential, bool)
}

// Git keeps mirrors under one folder. It may be used concurrently.
type Git struct {
	dir         string
	agent       string
	logger      *slog.Logger
	readers     *semaphore.Weighted
	hosts       hosts
	credentials Credentials
	environment func(*http.Request) (*url.URL, error)
	apps        *githubapp.Tokens

	mu        sync.Mutex
	current   map[string]string      // uid → folder of the current generation
	described map[string]mirror.File // path → what Export says of a file
}

var (
	_ mirror.Upstream = (*Git)(nil)
	_ mirror.Gate     = (*Git)(nil)
	_ mirror.Mirrors  = (*Git)(nil)
	_ content.Opener  = (*Git)(nil)
)

// New makes the folder for mirrors and returns a Git on it.
func New(cfg Config) (*Git, error) {
	if cfg.Readers <= 0 {
		cfg.Readers = defaultReaders
	}
	if cfg.Agent == "" {
		cfg.Agent = "git/2.0 (leat)"
	}
	if cfg.Hosts == nil {
		cfg.Hosts = hostgate.New(hostgate.Config{})
	}
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make mirror folder: %w", err)
	}
	return &Git{
		dir: cfg.Dir, agent: cfg.Agent, logger: cfg.Logger, hosts: cfg.Hosts, credentials: cfg.Credentials,
		environment: cfg.Proxy, apps: githubapp.NewTokens(),
		readers: semaphore.NewWeighted(int64(cfg.Readers)), current: map[string]string{},
		described: map[string]mirror.File{},
	}, nil
}

// uidForm keeps a UID from leaving the folder it names.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (g *Git) home(uid string) (string, error) {
	if !uidForm.MatchString(uid) {
		return "", fmt.Errorf("repository uid %q cannot name a folder", uid)
	}
	return filepath.Join(g.dir, uid), nil
}

func (g *Git) generation(uid string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	dir, ok := g.current[uid]
	return dir, ok
}

func (g *Git) setGeneration(uid, dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if dir == "" {
		delete(g.current, uid)
		return
	}
	g.current[uid] = dir
}

// Load implements [mirror.Mirrors].
func (g *Git) Load(ctx context.Context, uid string) (mirror.Content, error) {
	home, err := g.home(uid)
	if err != nil {
		return mirror.Content{}, err
	}
	s, err := readState(home)
	if errors.Is(err, os.ErrNotExist) {
		return mirror.Content{}, errors.Join(mirror.ErrNoMirror, sweep(home, ""))
	}
	if err == nil {
		err = s.verify(ctx, home)
	}
	if ctx.Err() != nil {
		return mirror.Content{}, context.Cause(ctx)
	}
	if err != nil {
		g.logger.WarnContext(ctx, "damaged mirror dropped", slog.String("leat.repository.uid", uid), slog.Any("error", err))
		return mirror.Content{}, errors.Join(mirror.ErrNoMirror, os.RemoveAll(home))
	}
	if err := sweep(home, s.Generation); err != nil {
		return mirror.Content{}, fmt.Errorf("sweep mirror: %w", err)
	}
	g.setGeneration(uid, filepath.Join(home, s.Generation))
	return s.content(), nil
}

// Remove implements [mirror.Mirrors].
func (g *Git) Remove(_ context.Context, uid string) error {
	home, err := g.home(uid)
	if err != nil {
		return err
	}
	g.setGeneration(uid, "")
	g.forget(home)
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("remove mirror: %w", err)
	}
	return nil
}

// openStorage opens a bare repository's object store with caches of its own: they are not safe to share.
func openStorage(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir, osfs.WithBoundOS()),
		cache.NewObjectLRU(cache.FileSize(readerCache)),
		filesystem.Options{LargeObjectThreshold: largeObject, KeepDescriptors: true})
}
