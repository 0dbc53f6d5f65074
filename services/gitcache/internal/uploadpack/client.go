// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package uploadpack talks to upstreams: it speaks Git's upload-pack protocol, over smart HTTP and
// SSH, for all back ends.
//
// Its promises:
//
//   - Nothing is sent before the guard of a fetch has agreed, nor once it no longer does.
//   - A credential goes to the host of the repository's URL alone, over TLS or SSH unless the
//     credential allows plain HTTP. It goes to no redirect, no proxy, no log and no error.
//   - No file, agent or environment variable of the user that the process runs as is used,
//     except for the proxy variables.
//   - Every answer is bounded, whatever an upstream sends: packets, lists of refs, capabilities,
//     acknowledgements, redirects and words for people. Package pack bounds the packs.
//   - A failure comes out as a *mirror.UpstreamError with a reason and a sentence of advice what to
//     do. Words of the upstream are quoted without anything that looks like a credential.
//
// A [Session] is one conversation: it is dialled, advertises once, and fetches at most once. A
// [Receiver] is one with the program that takes pushes; package receivepack holds it. Calls run one
// way: [Client.Dial] makes the channel, over HTTP or SSH, for a Session. The Session writes
// and reads messages by the version of the protocol that the upstream speaks. Package route, below,
// makes the connections.
//
// A [Client] is immutable, apart from the tokens that package githubapp keeps under a lock of its
// own, and may be used concurrently. The package stores no object and moves no ref.
package uploadpack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack/route"
)

// Config sets how to reach upstreams.
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
	// Version2 asks upstreams for version 2 of the protocol: they then list branches and tags alone,
	// and may name objects by SHA-256. Others are talked to in the first version.
	Version2 bool
	// Guard judges the addresses of URLs that no administrator wrote: of submodules at other hosts
	// than their root's, of redirects, and of stores that an LFS server names. It also judges all
	// addresses of definitions with PublicOnly, and then refuses private networks.
	Guard dialguard.Guard
	// Root returns the repository with that UID, to which submodules refer as their root. It returns
	// false while the root is unknown; its submodules are then treated like submodules of a root with
	// PublicOnly. Nil: every root is unknown.
	Root func(uid string) (root mirror.Root, ok bool)
}

// Credentials are given by URL. Its methods may be called concurrently.
type Credentials interface {
	// For returns the credential for a repository's URL; false: there is none.
	For(url string) (mirror.SharedCredential, bool)
	// Mirrors returns the URLs at which mirrors of a registry have a repository, the first to ask
	// first.
	Mirrors(url string) []string
}

// Client holds conversations with upstreams. It may be used concurrently.
type Client struct {
	config Config // without zero values
	apps   *githubapp.Tokens
}

// New returns a client. It sends nothing.
func New(cfg Config) *Client {
	if cfg.Hosts == nil {
		cfg.Hosts = hostgate.New(hostgate.Config{})
	}
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	if cfg.Root == nil {
		cfg.Root = func(string) (mirror.Root, bool) { return mirror.Root{}, false }
	}
	return &Client{config: cfg, apps: githubapp.NewTokens()}
}

// Check implements [mirror.Upstream].
func (c *Client) Check(def mirror.Definition) error {
	def, err := c.withCredential(def)
	if err != nil {
		return err
	}
	return checkDefinition(def, c.config.Dir)
}

// Enter implements [mirror.Upstream].
func (c *Client) Enter(ctx context.Context, def mirror.Definition) (leave func(), err error) {
	t, err := parseTarget(def)
	if err != nil {
		return func() {}, nil //nolint:nilerr // nothing will be sent; Fetch returns why
	}
	return c.config.Hosts.Enter(ctx, t.host())
}

// withCredential gives a definition without a credential the one that its URL has.
func (c *Client) withCredential(def mirror.Definition) (mirror.Definition, error) {
	if c.config.Credentials == nil || !def.Credential.IsZero() {
		return def, nil
	}
	shared, ok := c.config.Credentials.For(def.URL)
	if !ok || (shared.CAPEM == "" && choosesServer(def)) {
		return def, nil
	}
	def.Credential = shared.Credential
	if shared.CAPEM != "" {
		def.CAPEM = shared.CAPEM
	}
	if err := checkDefinition(def, c.config.Dir); err != nil {
		return def, refuse("url", fmt.Sprintf("With the credential that gitcache's file has for %s it cannot be used: %v", shared.Prefix, err))
	}
	return def, nil
}

// choosesServer reports whether the definition itself chooses which server passes for the upstream:
// its author could have a shared credential sent to a server of theirs. SSH is safe, since
// known_hosts comes with the credential.
func choosesServer(def mirror.Definition) bool {
	lower := strings.ToLower(def.URL)
	isPlain := strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, upstream.SchemeOCIPlain+"://")
	return def.CAPEM != "" || (isPlain && def.ProxyURL != "")
}

// target returns the target of a definition, with the credential that its URL has. Every call that
// sends something begins with it.
func (c *Client) target(def mirror.Definition) (target, error) {
	def, err := c.withCredential(def)
	if err != nil {
		return target{}, err
	}
	return parseTarget(def)
}

// newRoute returns the route for a definition: through its own proxy, or through the environment's.
// Addresses in URLs other than written are checked before they are dialled, and so are the
// addresses of a definition that is confined to public addresses, and of the proxy that it names.
func (c *Client) newRoute(
	def mirror.Definition, p mirror.FetchParams, environment func(*http.Request) (*url.URL, error), written ...string,
) (*route.Route, error) {
	roots, err := parseRoots(def.CAPEM)
	if err != nil {
		return nil, err
	}
	own, err := parseProxy(def.ProxyURL)
	if err != nil {
		return nil, err
	}
	if own != nil {
		environment = http.ProxyURL(own)
	}
	params := route.Params{Guard: p.Guard, Received: p.Received, Written: written, Untrusted: c.config.Guard, Proxy: environment, Roots: roots}
	if c.isPublicOnly(def) {
		params.Written, params.Untrusted.RefusePrivate, params.ProxyUntrusted = nil, true, own != nil
	}
	return route.New(params), nil
}

// isPublicOnly reports whether a definition, or the root that it is a submodule of, is confined to
// public addresses.
func (c *Client) isPublicOnly(def mirror.Definition) bool {
	if def.ParentUID == "" {
		return def.PublicOnly
	}
	root, ok := c.config.Root(def.ParentUID)
	return !ok || root.PublicOnly
}

// written returns the URLs that an administrator wrote for a definition: its own URL, the URLs of
// its token hosts and of the API for pull requests, or the URL of its root if it is a submodule.
func (c *Client) written(def mirror.Definition) []string {
	if def.ParentUID == "" {
		urls := []string{def.URL}
		if def.Push.APIURL != "" {
			urls = append(urls, def.Push.APIURL)
		}
		for _, host := range def.TokenHosts.Names() {
			urls = append(urls, "https://"+host, "http://"+host)
		}
		return urls
	}
	if root, ok := c.config.Root(def.ParentUID); ok {
		return []string{root.URL}
	}
	return nil
}
