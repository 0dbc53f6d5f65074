// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack/route"
)

// gated holds every request to what its host allows, and reports how the host answered: one that
// asks to be left alone is spared by all repositories.
type gated struct {
	*route.Transport
	hosts *hostgate.Gate
}

// RoundTrip implements http.RoundTripper.
func (g gated) RoundTrip(req *http.Request) (*http.Response, error) {
	host := route.HostName(req.URL.Scheme, req.URL.Hostname(), req.URL.Port())
	if err := g.hosts.Request(req.Context(), host); err != nil {
		return nil, err
	}
	resp, err := g.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	g.hosts.Report(host, resp.StatusCode, retryAfter(resp.Header))
	return resp, nil
}

// authorizer carries the HTTP requests that belong to a repository, each after the guard has
// agreed. It adds the credential to requests for the origin it was given for, and to no others.
type authorizer struct {
	gated
	origin     *url.URL
	credential upstream.Credential
	guard      func() error
	app        *appTokens // of a GitHub App, else nil
}

// newAuthorizer returns an authorizer for a repository. Its caller closes its idle connections.
func (c *Client) newAuthorizer(t target, p mirror.FetchParams, withCredential bool) (*authorizer, error) {
	way, err := c.newRoute(t.def, p, c.config.Proxy, c.written(t.def)...)
	if err != nil {
		return nil, err
	}
	origin := &url.URL{} // over SSH: equals no request's
	if !t.isSSH() {
		if origin, err = url.Parse(t.def.URL); err != nil {
			return nil, fmt.Errorf("parse url: %w", err)
		}
	}
	a := &authorizer{origin: origin, guard: p.Guard}
	var certificates []tls.Certificate
	if t.def.Credential.ClientCertPEM != "" {
		pair, err := tls.X509KeyPair([]byte(t.def.Credential.ClientCertPEM), []byte(t.def.Credential.ClientKeyPEM.Reveal()))
		if err != nil {
			return nil, errors.New("client certificate and key do not fit together")
		}
		certificates = append(certificates, pair)
	}
	a.gated = gated{Transport: way.NewTransport(origin, certificates...), hosts: c.config.Hosts}
	if withCredential {
		a.credential = t.def.Credential
		a.app, err = c.newAppTokens(t.def)
	}
	return a, err
}

// RoundTrip implements http.RoundTripper.
func (a *authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := a.guard(); err != nil {
		return nil, err
	}
	isAllowed := (req.URL.Scheme == "https" || a.credential.AllowPlainHTTP) && route.SameOrigin(req.URL, a.origin)
	switch {
	case !isAllowed:
	case a.app != nil:
		return a.roundTripApp(req)
	case a.credential.Method == upstream.MethodBasic:
		req = req.Clone(req.Context())
		req.SetBasicAuth(a.credential.Username, a.credential.Password.Reveal())
	case a.credential.Method == upstream.MethodBearer:
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+a.credential.Token.Reveal())
	}
	return a.gated.RoundTrip(req)
}

// appUser is the name that GitHub wants beside an installation token.
const appUser = "x-access-token"

// roundTripApp tries once more with a new token where one was refused: it may have been revoked
// before its time.
func (a *authorizer) roundTripApp(req *http.Request) (*http.Response, error) {
	for isRetry := false; ; isRetry = true {
		token, err := a.app.cache.Token(req.Context(), a.app.app, a.app.client)
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
		resp, err := a.gated.RoundTrip(try)
		if err != nil || resp.StatusCode != http.StatusUnauthorized {
			return resp, err
		}
		a.app.cache.Forget(a.app.app, token)
		if isRetry {
			return resp, nil
		}
		_ = resp.Body.Close()
		if err := a.guard(); err != nil {
			return nil, err
		}
	}
}

// appTokens are the tokens of one installation of a GitHub App.
type appTokens struct {
	cache  *githubapp.Tokens
	app    githubapp.App
	client *http.Client
}

// newAppTokens returns nil where the credential is of another kind. The requests for tokens take
// the same route as those for the upstream, but are not under its guard: they touch no repository,
// and other repositories share their answers.
func (c *Client) newAppTokens(def mirror.Definition) (*appTokens, error) {
	cred := def.Credential
	if cred.Method != upstream.MethodGitHubApp {
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
	way, err := c.newRoute(def, mirror.FetchParams{Guard: func() error { return nil }}, c.config.Proxy, base)
	if err != nil {
		return nil, err
	}
	transport := way.NewTransport(api)
	transport.DisableKeepAlives() // one request an hour
	return &appTokens{
		cache: c.apps, client: &http.Client{Transport: gated{Transport: transport, hosts: c.config.Hosts}},
		app: githubapp.App{
			ID: cred.AppID, Installation: cred.InstallationID, PrivateKey: cred.PrivateKey.Reveal(), APIURL: base,
			Via: def.ProxyURL.Reveal() + "\x00" + def.CAPEM,
		},
	}, nil
}
