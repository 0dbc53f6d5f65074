// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// authorizer adds the credential to requests for the origin it was given for, and to no others.
type authorizer struct {
	next       http.RoundTripper
	origin     *url.URL
	credential mirror.Credential
	guard      func() error
	app        *appTokens // of a GitHub App, else nil
}

// RoundTrip implements http.RoundTripper.
func (a authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := a.guard(); err != nil {
		return nil, err
	}
	if !a.allowed(req.URL) {
		return a.next.RoundTrip(req)
	}
	if a.app != nil {
		return a.roundTripApp(req)
	}
	req = req.Clone(req.Context())
	switch a.credential.Method {
	case mirror.MethodBasic:
		req.SetBasicAuth(a.credential.Username, a.credential.Password.Reveal())
	case mirror.MethodBearer:
		req.Header.Set("Authorization", "Bearer "+a.credential.Token.Reveal())
	case mirror.MethodNone, mirror.MethodSSH, mirror.MethodGitHubApp: // nothing to add here
	}
	return a.next.RoundTrip(req)
}

func (a authorizer) allowed(u *url.URL) bool {
	return (u.Scheme == "https" || a.credential.AllowPlainHTTP) && sameOrigin(u, a.origin)
}

// appUser is the name that GitHub wants beside an installation token.
const appUser = "x-access-token"

// roundTripApp tries once more with a new token where one was refused: it may have been revoked
// before its time.
func (a authorizer) roundTripApp(req *http.Request) (*http.Response, error) {
	for again := true; ; again = false {
		token, err := a.app.get(req.Context())
		if err != nil {
			return nil, err
		}
		try := req.Clone(req.Context())
		if req.GetBody != nil {
			if try.Body, err = req.GetBody(); err != nil {
				return nil, fmt.Errorf("repeat request: %w", err)
			}
		}
		try.SetBasicAuth(appUser, token)
		resp, err := a.next.RoundTrip(try)
		if err != nil || resp.StatusCode != http.StatusUnauthorized {
			return resp, err
		}
		a.app.forget(token)
		if !again {
			return resp, nil
		}
		_ = resp.Body.Close()
		if err := a.guard(); err != nil {
			return nil, err
		}
	}
}

// appTokens are the tokens of one installation, over the way that leads to its upstream.
type appTokens struct {
	cache  *githubapp.Tokens
	app    githubapp.App
	client *http.Client
}

// newAppTokens returns nil where the credential is of another kind. The requests for tokens are not
// under the guard: they touch no repository, and what comes back is shared with other repositories.
func (c *Client) newAppTokens(def mirror.Definition) (*appTokens, error) {
	cred := def.Credential
	if cred.Method != mirror.MethodGitHubApp {
		return nil, nil
	}
	base := cred.APIURL
	if base == "" {
		base = githubapp.DefaultAPI
	}
	api, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("api url is not a url")
	}
	way, roots, err := c.newRoute(def, mirror.FetchParams{Guard: func() error { return nil }}, base)
	if err != nil {
		return nil, err
	}
	next, err := newTransports(way, api, mirror.Credential{}, roots)
	if err != nil {
		return nil, err
	}
	for _, t := range next.all() {
		t.DisableKeepAlives = true // one request an hour
	}
	return &appTokens{
		cache: c.apps, client: &http.Client{Transport: gated{next: next, hosts: c.hosts}},
		app: githubapp.App{
			ID: cred.AppID, Installation: cred.InstallationID, PrivateKey: cred.PrivateKey.Reveal(), APIURL: base,
			Via: def.ProxyURL.Reveal() + "\x00" + def.CAPEM,
		},
	}, nil
}

func (t *appTokens) get(ctx context.Context) (string, error) {
	return t.cache.Token(ctx, t.app, t.client)
}

func (t *appTokens) forget(token string) { t.cache.Forget(t.app, token) }
