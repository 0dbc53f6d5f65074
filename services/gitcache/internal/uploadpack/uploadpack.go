// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package uploadpack talks to upstreams: it speaks the upload-pack protocol, over smart HTTP and
// SSH, for all back ends.
//
// One session lists the refs and, if any moved, asks for a pack of what is missing. That leaves
// redirects, credentials, proxies, ambient configuration, capabilities, what each host is spared,
// and the guard before every byte in one place.
package uploadpack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// maxAdvertised bounds the bytes of a list of refs, which is about a million refs. In memory
	// the list takes three times as much.
	maxAdvertised = 64 << 20
	// maxCapabilities bounds the bytes of the capabilities that an upstream lists.
	maxCapabilities = 1 << 20
)

// Config says how to reach upstreams.
type Config struct {
	// Dir is for files that live as long as one call.
	Dir string
	// Hosts bounds what goes to each host. Nil: the defaults of [hostgate.Config].
	Hosts *hostgate.Gate
	// Credentials are for definitions that have none. Nil: there are none.
	Credentials Credentials
	// Proxy is asked for the proxy of HTTP upstreams whose definition has none. Nil:
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Agent is what upstreams are told about this client, such as "git/2.0 (leat)". Empty: that.
	Agent string
	// Version2 asks upstreams for version 2 of the protocol: they then list branches and tags
	// alone, and may name objects by SHA-256. Those that do not know it are talked to in the first
	// version.
	Version2 bool
	// Guard judges the addresses of URLs that no administrator wrote: those of submodules at other
	// hosts than their root's, of redirects, and of stores that an LFS server names.
	Guard dialguard.Guard
	// Root returns the URL of the repository with that UID, to which submodules refer as their
	// root. It returns false while the URL is unknown, and Guard then judges the addresses of those
	// submodules. Nil: every URL is unknown.
	Root func(uid string) (url string, ok bool)
}

// Credentials are given by URL. For may be called concurrently.
type Credentials interface {
	// For returns the credential for a repository's URL; false: there is none.
	For(url string) (mirror.SharedCredential, bool)
}

// Client holds conversations with upstreams. It may be used concurrently.
type Client struct {
	dir         string
	agent       string
	hosts       hosts
	credentials Credentials
	environment func(*http.Request) (*url.URL, error)
	apps        *githubapp.Tokens
	version2    bool
	guard       dialguard.Guard
	root        func(uid string) (url string, ok bool)
}

// New returns a client that has talked to nobody yet.
func New(cfg Config) *Client {
	if cfg.Agent == "" {
		cfg.Agent = "git/2.0 (leat)"
	}
	if cfg.Hosts == nil {
		cfg.Hosts = hostgate.New(hostgate.Config{})
	}
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	if cfg.Root == nil {
		cfg.Root = func(string) (string, bool) { return "", false }
	}
	return &Client{
		guard: cfg.Guard, root: cfg.Root, dir: cfg.Dir, agent: cfg.Agent, hosts: cfg.Hosts, credentials: cfg.Credentials, environment: cfg.Proxy,
		apps: githubapp.NewTokens(), version2: cfg.Version2,
	}
}

// Fetch runs one fetch, and turns its failure into what [mirror.Upstream] promises.
func Fetch(ctx context.Context, p mirror.FetchParams, fetch func(context.Context, mirror.FetchParams) (mirror.Content, error)) (mirror.Content, error) {
	c, err := fetch(ctx, p)
	if err == nil {
		return c, nil
	}
	if gone := p.Guard(); gone != nil {
		return mirror.Content{}, gone
	}
	if ctx.Err() != nil {
		return mirror.Content{}, fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		return mirror.Content{}, quiet
	}
	return mirror.Content{}, explain(err, p.Definition)
}
