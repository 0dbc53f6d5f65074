// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gogit mirrors Git repositories with go-git: full history, bare, one folder per
// repository.
//
// Package uploadpack talks to upstreams, and package store keeps what comes from there on disk;
// this one stores packs and reads objects.
package gogit

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/store"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
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
	// Proxy is asked for the proxy of HTTP upstreams whose definition has none. Nil:
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Guard and Root are those of [uploadpack.Config].
	Guard dialguard.Guard
	Root  func(uid string) (url string, ok bool)
	// Memory admits packs that are indexed. Nil: a budget of its default size.
	Memory *memory.Budget
	// MirrorDisk bounds the bytes of all mirrors. Zero: only the disk does.
	MirrorDisk int64
	// Agent is what upstreams are told about this client, such as "git/2.0 (leat)". Empty: that.
	Agent  string
	Logger *slog.Logger
	// Fault is [store.Limits.Fault].
	Fault func(step string) error
}

// Credentials are given by URL.
type Credentials = uploadpack.Credentials

// Git keeps mirrors under one folder. It may be used concurrently.
type Git struct {
	*store.Store
	*uploadpack.Client
	memory *memory.Budget
}

var _ mirror.Backend = (*Git)(nil)

// New makes the folder for mirrors and returns a Git on it.
func New(cfg Config) (*Git, error) {
	if cfg.Memory == nil {
		cfg.Memory = memory.NewBudget(0)
	}
	mirrors, err := store.New(store.Params{
		Dir: cfg.Dir, Readers: cfg.Readers, Large: openLarge, Logger: cfg.Logger,
		Limits: store.Limits{Memory: cfg.Memory, DiskBytes: cfg.MirrorDisk, Fault: cfg.Fault},
	})
	if err != nil {
		return nil, err
	}
	client := uploadpack.New(uploadpack.Config{
		Dir: cfg.Dir, Hosts: cfg.Hosts, Credentials: cfg.Credentials, Proxy: cfg.Proxy, Guard: cfg.Guard, Root: cfg.Root,
		Agent: cfg.Agent,
	})
	return &Git{Store: mirrors, Client: client, memory: cfg.Memory}, nil
}

// Check implements [mirror.Upstream].
func (g *Git) Check(def mirror.Definition) error {
	if def.PartialClone {
		return errPartial
	}
	return g.Client.Check(def)
}

// Fill implements [mirror.Upstream]. Check refuses partial clones, so there is nothing to fill.
func (g *Git) Fill(context.Context, mirror.FetchParams, []string) (mirror.Content, error) {
	return mirror.Content{}, errPartial
}

// errPartial is a definition that this back end cannot serve.
var errPartial = &mirror.FieldError{
	Field: "partial_clone", Message: "It takes gitcache's back end git (LEAT_GITCACHE_BACKEND=git); the one that runs is gogit, which mirrors everything.",
}
