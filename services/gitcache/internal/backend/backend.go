// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package backend mirrors Git repositories: it has what all back ends have in common.
//
// Package uploadpack talks to upstreams, and package store keeps mirrors on disk. This package runs
// a fetch between the two. A back end adds its [Tools], which store packs and open large files.
//
// Its promises:
//
//   - A fetch counts as a whole or not at all. Packs go to a draft of the mirror. Its refs count
//     once everything that they lead to has arrived, and the guard of the fetch has agreed.
//   - An object that the mirror holds is not asked for again. Fetched objects are read with the
//     same reader as the mirror.
//   - A definition that the tools cannot serve is refused by Check, before anything is sent.
//
// A [Backend] has no lock of its own: Store and Client have theirs. Calls that write are for
// different repositories only, see [mirror.Upstream].
package backend

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/store"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// Config sets where mirrors are, and how upstreams are reached.
type Config struct {
	// Dir holds one folder per repository. It is made if it does not exist.
	Dir string
	// Readers bounds how many readers are open at once. Zero: 8.
	Readers int
	// Executable is git's name or path. Empty: "git", as PATH finds it. Only the back end git has
	// one.
	Executable string
	// Hosts bounds what goes to each host. Nil: the defaults of [hostgate.Config].
	Hosts *hostgate.Gate
	// Credentials are for definitions that have none. Nil: there are none.
	Credentials uploadpack.Credentials
	// Proxy is asked for the proxy of HTTP upstreams whose definition has none. Nil:
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Guard and Root are as in [uploadpack.Config].
	Guard dialguard.Guard
	Root  func(uid string) (root mirror.Root, ok bool)
	// Memory admits packs that are indexed. Nil: a budget of its default size.
	Memory *memory.Budget
	// MirrorDisk bounds the bytes of all mirrors, together with what OtherMirrors returns. Zero: only
	// the disk does.
	MirrorDisk int64
	// OtherMirrors is [store.Limits.Others].
	OtherMirrors func() int64
	Logger       *slog.Logger
	// Fault is [store.Limits.Fault].
	Fault func(step string) error
}

// Tools store packs and open large files. Their methods may be called concurrently.
type Tools interface {
	// IsFull reports whether the tools store everything that an upstream can send: names by SHA-256,
	// thin packs, and packs without the content of files. Upstreams are asked for none of these
	// otherwise.
	IsFull() bool
	// Keep checks and stores a pack as soon as memory has room for indexing it. On an error nothing
	// of the pack stays.
	Keep(ctx context.Context, a Arrival) error
	// OpenLarge opens a blob of the bare repository in dir that is too large to be held in memory.
	OpenLarge(ctx context.Context, dir, id string) (content.File, error)
}

// Arrival is a pack on its way into a bare repository.
type Arrival struct {
	Dir  string    // the bare repository
	Pack io.Reader // the bytes, as they come
	// IsPartial reports whether the pack may lack blobs.
	IsPartial bool
	// Tips are the objects that a partial pack has to make complete, apart from blobs, together with
	// the objects that Have leads to. Empty: the pack has blobs alone.
	Tips []string
	Have mirror.Refs
}

// Backend keeps mirrors under one folder. It may be used concurrently.
type Backend struct {
	*store.Store
	*uploadpack.Client
	tools  Tools
	logger *slog.Logger
}

var _ mirror.Backend = (*Backend)(nil)

// New makes the folder for mirrors and returns a back end on it. Its memory has to be set.
func New(cfg Config, tools Tools) (*Backend, error) {
	mirrors, err := store.New(store.Params{
		Dir: cfg.Dir, Readers: cfg.Readers, Large: tools.OpenLarge, SHA256: tools.IsFull(), Partial: tools.IsFull(), Logger: cfg.Logger,
		Limits: store.Limits{Memory: cfg.Memory, DiskBytes: cfg.MirrorDisk, Others: cfg.OtherMirrors, Fault: cfg.Fault},
	})
	if err != nil {
		return nil, err
	}
	client := uploadpack.New(uploadpack.Config{
		Dir: cfg.Dir, Hosts: cfg.Hosts, Credentials: cfg.Credentials, Proxy: cfg.Proxy, Guard: cfg.Guard, Root: cfg.Root,
		Version2: tools.IsFull(),
	})
	return &Backend{Store: mirrors, Client: client, tools: tools, logger: cfg.Logger}, nil
}

// errPartial is a definition that the tools cannot serve.
var errPartial = &mirror.FieldError{
	Field: "partial_clone", Message: "It takes gitcache's back end git (LEAT_GITCACHE_BACKEND=git); the one that runs is gogit, which mirrors everything.",
}

// Check implements [mirror.Upstream].
func (b *Backend) Check(def mirror.Definition) error {
	if def.PartialClone && !b.tools.IsFull() {
		return errPartial
	}
	return b.Client.Check(def)
}
