// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// What belongs to a repository besides Git is reached in the way that its definition prescribes for
// Git: the same proxy, certificates and limits, and the credential only where it would go anyway.

// maxGrant bounds what git-lfs-authenticate may answer.
const maxGrant = 64 << 10

// Carrier returns what carries requests that belong to a repository, every one of them under the
// guard. Where credential is set, those to the host of the repository's URL get its credential; all
// others are sent as they are. A caller that is done with it closes its idle connections.
func (c *Client) Carrier(def mirror.Definition, guard func() error, credential bool) (http.RoundTripper, error) {
	def, err := c.effective(def)
	if err != nil {
		return nil, err
	}
	t, err := parseTarget(def)
	if err != nil {
		return nil, err
	}
	way, roots, err := c.newRoute(def, mirror.FetchParams{Guard: guard}, c.written(def)...)
	if err != nil {
		return nil, err
	}
	origin := &url.URL{} // equals no request's
	if t.endpoint.Protocol != "ssh" {
		if origin, err = url.Parse(def.URL); err != nil {
			return nil, fmt.Errorf("parse url: %w", err)
		}
	}
	carriers, err := newTransports(way, origin, def.Credential, roots)
	if err != nil {
		return nil, err
	}
	a := authorizer{next: gated{next: carriers, hosts: c.hosts}, origin: origin, guard: guard}
	if credential {
		a.credential = def.Credential
		if a.app, err = c.newAppTokens(def); err != nil {
			return nil, err
		}
	}
	return carrier{RoundTripper: a, idle: carriers.CloseIdleConnections}, nil
}

// carrier lets http.Client close its connections.
type carrier struct {
	http.RoundTripper
	idle func()
}

// CloseIdleConnections is what http.Client looks for.
func (c carrier) CloseIdleConnections() { c.idle() }

// LFS returns where the LFS server of a repository is, and what requests to that host have to carry
// besides the repository's credential. Over SSH git-lfs-authenticate tells both.
func (c *Client) LFS(ctx context.Context, def mirror.Definition, guard func() error) (string, map[string]string, error) {
	def, err := c.effective(def)
	if err != nil {
		return "", nil, err
	}
	t, err := parseTarget(def)
	if err != nil {
		return "", nil, err
	}
	if t.endpoint.Protocol == "ssh" {
		return c.authenticateLFS(ctx, guard, t)
	}
	return strings.TrimSuffix(strings.TrimRight(def.URL, "/"), ".git") + ".git/info/lfs", nil, nil
}

// grant is what git-lfs-authenticate prints.
type grant struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

func (c *Client) authenticateLFS(ctx context.Context, guard func() error, t target) (string, map[string]string, error) {
	s, err := c.dialSSH(ctx, mirror.FetchParams{Guard: guard}, t, "git-lfs-authenticate "+shellQuote(t.endpoint.Path)+" download")
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = s.Close() }()
	said, err := io.ReadAll(io.LimitReader(s.stdout, maxGrant))
	if err == nil && len(said) == 0 {
		err = io.ErrUnexpectedEOF
	}
	var got grant
	if err == nil {
		err = json.Unmarshal(said, &got)
	}
	if err != nil {
		return "", nil, fmt.Errorf("authenticate to the lfs server: %w", s.blame(err))
	}
	if err := t.checkGrant(got); err != nil {
		return "", nil, err
	}
	return strings.TrimRight(got.Href, "/"), got.Header, nil
}

// checkGrant refuses a server to which the grant would travel unencrypted.
func (t target) checkGrant(got grant) error {
	u, err := url.Parse(got.Href)
	if err != nil || u.Host == "" || u.User != nil {
		return &mirror.UpstreamError{Reason: mirror.ReasonProtocol, Message: "The host's git-lfs-authenticate names no LFS server."}
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !t.def.Credential.AllowPlainHTTP) {
		return &mirror.UpstreamError{
			Reason:  mirror.ReasonProtocol,
			Message: "The host's LFS server is reached over plain HTTP, which would show its token to everyone on the way.",
		}
	}
	return nil
}

// Explain makes an *mirror.UpstreamError of what went wrong under a [Client.Carrier] or in
// [Client.LFS]. It leaves alone what says that nothing was sent.
func (c *Client) Explain(err error, def mirror.Definition) error {
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		return quiet
	}
	return explain(err, def)
}

// Refused returns an HTTP answer that is not success as an error for [Client.Explain].
func (c *Client) Refused(resp *http.Response) error {
	return &statusError{
		status: resp.StatusCode, host: resp.Request.URL.Host, retryAfter: retryAfter(resp.Header.Get("Retry-After")),
	}
}
