// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Dial opens a session. Nothing is sent before the guard has agreed.
func (c *Client) Dial(ctx context.Context, p mirror.FetchParams) (*Session, error) {
	t, err := c.target(p.Definition)
	if err != nil {
		return nil, err
	}
	if t.isSSH() {
		s, err := c.dialSSH(ctx, p, t, string(uploads)+" "+shellQuote(t.endpoint.Path), c.config.Version2)
		if err != nil {
			return nil, err
		}
		return &Session{channel: s, wantsVersion2: c.config.Version2}, nil
	}
	carrier, err := c.newAuthorizer(t, p, true)
	if err != nil {
		return nil, err
	}
	return &Session{channel: newHTTPChannel(carrier, uploads, c.config.Version2), wantsVersion2: c.config.Version2}, nil
}

// The rest of a repository, such as its LFS objects, is reached in the way that its definition
// prescribes for Git: through the same proxy, with the same certificates and limits, and with the
// credential only where that would go anyway.

// maxGrant bounds the answer of git-lfs-authenticate.
const maxGrant = 64 << 10

// Carrier returns a transport for requests that belong to a repository, every one of them under the
// guard. Where credential is set, those to the host of the repository's URL get its credential; all
// others are sent as they are. The caller closes its idle connections.
func (c *Client) Carrier(def mirror.Definition, guard func() error, credential bool) (http.RoundTripper, error) {
	return c.Transport(mirror.FetchParams{Definition: def, Guard: guard}, credential)
}

// Transport is Carrier for the requests of a fetch, whose bytes it counts.
func (c *Client) Transport(p mirror.FetchParams, credential bool) (http.RoundTripper, error) {
	t, err := c.target(p.Definition)
	if err != nil {
		return nil, err
	}
	return c.newAuthorizer(t, p, credential)
}

// Effective returns a definition with the credential and the certificates that its URL has, if it
// has none of its own. The error is a *mirror.FieldError.
func (c *Client) Effective(def mirror.Definition) (mirror.Definition, error) {
	return c.withCredential(def)
}

// Mirrors returns definitions of the same repository at the mirrors of its registry, the first to ask
// first. They have the credentials of their own URLs, and none of the given definition's.
func (c *Client) Mirrors(def mirror.Definition) []mirror.Definition {
	if c.config.Credentials == nil {
		return nil
	}
	var mirrors []mirror.Definition
	for _, url := range c.config.Credentials.Mirrors(def.URL) {
		at := def
		at.URL, at.Credential, at.CAPEM, at.TokenHosts, at.PublicOnly = url, upstream.Credential{}, "", "", false
		mirrors = append(mirrors, at)
	}
	return mirrors
}

// LFS returns the URL of a repository's LFS server, and the headers that requests to that host have
// to carry besides the repository's credential. Over SSH git-lfs-authenticate prints both.
func (c *Client) LFS(ctx context.Context, def mirror.Definition, guard func() error) (string, map[string]string, error) {
	if def.Type.IsArtifacts() {
		return "", nil, &mirror.UpstreamError{
			Reason: reason.ContentUnsupported, Message: "A chart or artifact holds a Git LFS pointer; package the content itself.",
		}
	}
	t, err := c.target(def)
	if err != nil {
		return "", nil, err
	}
	if !t.isSSH() {
		return strings.TrimSuffix(strings.TrimRight(def.URL, "/"), ".git") + ".git/info/lfs", nil, nil
	}
	s, err := c.dialSSH(ctx, mirror.FetchParams{Guard: guard}, t, "git-lfs-authenticate "+shellQuote(t.endpoint.Path)+" download", c.config.Version2)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = s.Close() }()
	var got grant
	if err := json.NewDecoder(io.LimitReader(s.stdout, maxGrant)).Decode(&got); err != nil {
		return "", nil, fmt.Errorf("authenticate to the lfs server: %w", s.blame(err))
	}
	if err := got.check(t.def.Credential.AllowPlainHTTP); err != nil {
		return "", nil, err
	}
	return strings.TrimRight(got.Href, "/"), got.Header, nil
}

// grant is the output of git-lfs-authenticate.
type grant struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// check refuses a server to which the grant would travel unencrypted.
func (g grant) check(allowPlain bool) error {
	u, err := url.Parse(g.Href)
	if err != nil || u.Host == "" || u.User != nil {
		return &mirror.UpstreamError{Reason: reason.UpstreamProtocol, Message: "The host's git-lfs-authenticate names no LFS server."}
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !allowPlain) {
		return &mirror.UpstreamError{
			Reason:  reason.UpstreamProtocol,
			Message: "The host's LFS server is reached over plain HTTP, which would show its token to everyone on the way.",
		}
	}
	return nil
}

// Token returns the token that a repository's credential has for the API of its host, which is a new
// one where the credential is a GitHub App. It is empty for an SSH key and without a credential.
func (c *Client) Token(ctx context.Context, def mirror.Definition, guard func() error) (secret.Text, error) {
	if err := guard(); err != nil {
		return "", err
	}
	switch cred := def.Credential; cred.Method {
	case upstream.MethodBasic:
		return cred.Password, nil
	case upstream.MethodBearer:
		return cred.Token, nil
	case upstream.MethodGitHubApp:
		app, err := c.newAppTokens(def)
		if err != nil {
			return "", err
		}
		token, err := app.cache.Token(ctx, app.app, app.client)
		return secret.Text(token), err
	default:
		return "", nil
	}
}

// Refused returns an HTTP answer that is not success as an error for [Client.Explain].
func (c *Client) Refused(resp *http.Response) error { return newStatusError(resp) }
