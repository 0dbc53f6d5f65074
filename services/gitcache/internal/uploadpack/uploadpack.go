// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package uploadpack talks to upstreams: it speaks the upload-pack protocol, over smart HTTP and SSH, for all back ends.
//
// One session lists the refs and, if any moved, asks for a pack of what is missing. That leaves redirects, credentials,
// proxies, ambient configuration, capabilities, what each host is spared, and the guard before every byte in one place.
package uploadpack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// maxAdvertised bounds the bytes of a list of refs.
const maxAdvertised = 256 << 20

// Config says how to reach upstreams.
type Config struct {
	// Dir is for files that live as long as one call.
	Dir string
	// Hosts bounds what goes to each host. Nil: the defaults of [hostgate.Config].
	Hosts *hostgate.Gate
	// Credentials are for definitions that have none. Nil: there are none.
	Credentials Credentials
	// Proxy is asked for the proxy of HTTP upstreams whose definition has none. Nil: http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Agent is what upstreams are told about this client, such as "git/2.0 (leat)". Empty: that.
	Agent string
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
}

var _ mirror.Gate = (*Client)(nil)

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
	return &Client{
		dir: cfg.Dir, agent: cfg.Agent, hosts: cfg.Hosts, credentials: cfg.Credentials, environment: cfg.Proxy,
		apps: githubapp.NewTokens(),
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
