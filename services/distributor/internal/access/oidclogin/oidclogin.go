// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package oidclogin speaks OpenID Connect to identity providers: discovery, the authorization code
// flow with PKCE, state and nonce, userinfo, and the renewal of claims by a refresh token.
//
// A provider is trusted about its own people and nothing else. Its answers are bounded in bytes and
// time, its redirects are not followed, and addresses of the hub's own machine are not dialled. Its
// description is kept for an hour, and while the provider does not answer.
package oidclogin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// discoveredFor is how long a provider's description of itself is used.
	discoveredFor = time.Hour
	// failedFor is how long a provider that did not answer is not asked again.
	failedFor = 5 * time.Second
	// skew is how far a provider's clock may differ.
	skew = 30 * time.Second
	// maxSubject bounds a provider's name for a person.
	maxSubject = 255
)

// Secrets reads the secrets of the hub's clients; sqlstore implements it.
type Secrets interface {
	// ProviderSecret returns the secret for the provider with that uid; empty: a public client.
	ProviderSecret(ctx context.Context, uid string) (secret.Text, error)
}

// Params are a Client's collaborators and settings.
type Params struct {
	Secrets Secrets
	// RedirectURI is the hub's, as registered at providers.
	RedirectURI string
	// Guard decides which addresses are dialled.
	Guard dialguard.Guard
}

// Client speaks to identity providers. It is safe for concurrent use.
type Client struct {
	p     Params
	asked singleflight.Group

	mu    sync.Mutex
	known map[string]*endpoint // by uid of the provider
}

var _ session.Provider = (*Client)(nil)

// New returns a Client.
func New(p Params) *Client { return &Client{p: p, known: map[string]*endpoint{}} }

// endpoint is a provider as it was discovered. It is not changed.
type endpoint struct {
	resourceVersion int64
	at              time.Time
	err             error // set where discovery failed

	http     *http.Client
	oauth    oauth2.Config
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	metadata metadata
}

// metadata holds the fields that go-oidc leaves out of a provider's description of itself.
type metadata struct {
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	UserInfo      string   `json:"userinfo_endpoint"`
	Keys          string   `json:"jwks_uri"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Scopes        []string `json:"scopes_supported"`
	SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
}

// AuthURL returns the address at which a person signs in.
func (c *Client) AuthURL(ctx context.Context, provider *catalog.IdentityProvider, t session.Transaction) (string, error) {
	e, err := c.endpoint(ctx, provider)
	if err != nil {
		return "", err
	}
	return e.oauth.AuthCodeURL(t.State, oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier.Reveal())), nil
}

// CheckIssuer returns an error unless the answer at the redirect URI may be the provider's (RFC
// 9207).
func (c *Client) CheckIssuer(ctx context.Context, provider *catalog.IdentityProvider, issuer string) error {
	e, err := c.endpoint(ctx, provider)
	if err != nil {
		return err
	}
	if issuer == "" && !e.metadata.SendsIssuer || issuer == provider.Spec.Issuer {
		return nil
	}
	return errors.New("the answer is another issuer's")
}

// Redeem exchanges the code of a sign-in for the person's claims.
func (c *Client) Redeem(ctx context.Context, provider *catalog.IdentityProvider, t session.Transaction, code string) (session.Claims, error) {
	e, err := c.endpoint(ctx, provider)
	if err != nil {
		return session.Claims{}, err
	}
	ctx, cancel := e.context(ctx)
	defer cancel()
	token, err := e.oauth.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier.Reveal()))
	if err != nil {
		return session.Claims{}, fmt.Errorf("redeem code: %w", withoutBody(err))
	}
	id, err := e.verify(ctx, token)
	switch {
	case err != nil:
		return session.Claims{}, err
	case id == nil:
		return session.Claims{}, errors.New("the provider sent no id_token")
	case id.Nonce != t.Nonce:
		return session.Claims{}, errors.New("the id_token has another nonce")
	}
	return e.claims(ctx, provider, id.Subject, id, token)
}

// Renew implements session.Provider.
func (c *Client) Renew(
	ctx context.Context, provider *catalog.IdentityProvider, subject string, refresh secret.Text,
) (session.Claims, error) {
	e, err := c.endpoint(ctx, provider)
	if err != nil {
		return session.Claims{}, err
	}
	ctx, cancel := e.context(ctx)
	defer cancel()
	token, err := e.oauth.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh.Reveal()}).Token()
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
			return session.Claims{}, fmt.Errorf("%w: %w", session.ErrRejected, withoutBody(err))
		}
		return session.Claims{}, fmt.Errorf("renew claims: %w", withoutBody(err))
	}
	id, err := e.verify(ctx, token)
	if err != nil {
		return session.Claims{}, err
	}
	if id != nil && id.Subject != subject {
		return session.Claims{}, fmt.Errorf("%w: the renewed id_token is another person's", session.ErrRejected)
	}
	return e.claims(ctx, provider, subject, id, token)
}

// withoutBody keeps the provider's words out of logs except its code: they may repeat a token.
func withoutBody(err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return err
	}
	status := 0
	if refused.Response != nil {
		status = refused.Response.StatusCode
	}
	return fmt.Errorf("the provider answered %d %.64q", status, refused.ErrorCode)
}

// verify returns the verified id_token of an answer, or nil if it has none.
func (e *endpoint) verify(ctx context.Context, token *oauth2.Token) (*oidc.IDToken, error) {
	raw, ok := token.Extra("id_token").(string)
	if !ok || raw == "" {
		return nil, nil
	}
	id, err := e.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("verify id_token: %w", err)
	}
	var more struct {
		AuthorizedParty string `json:"azp"`
	}
	if err := id.Claims(&more); err != nil {
		return nil, fmt.Errorf("read id_token: %w", err)
	}
	switch {
	case more.AuthorizedParty != "" && more.AuthorizedParty != e.oauth.ClientID, more.AuthorizedParty == "" && len(id.Audience) > 1:
		return nil, errors.New("verify id_token: it was issued to another client")
	case id.Subject == "" || len(id.Subject) > maxSubject:
		return nil, errors.New("verify id_token: its subject is empty or too long")
	case id.IssuedAt.After(time.Now().Add(skew)):
		return nil, errors.New("verify id_token: it was issued in the future; compare the clocks of hub and provider")
	}
	return id, nil
}

// claims returns the provider's claims about a person: the id_token's claims, and of userinfo the
// ones that the document needs and the id_token lacks. id is nil where the provider sent none.
func (e *endpoint) claims(
	ctx context.Context, provider *catalog.IdentityProvider, subject string, id *oidc.IDToken, token *oauth2.Token,
) (session.Claims, error) {
	claims := session.Claims{Subject: subject, Values: map[string]any{}, Complete: id != nil, Refresh: secret.Text(token.RefreshToken)}
	if id != nil {
		if err := id.Claims(&claims.Values); err != nil {
			return session.Claims{}, fmt.Errorf("read id_token: %w", err)
		}
	}
	if e.metadata.UserInfo == "" || id != nil && !isLacking(provider.Spec, claims.Values) {
		return claims, nil
	}
	info, err := e.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return session.Claims{}, errors.New("read userinfo: the provider did not answer, or not with JSON")
	}
	if info.Subject != subject {
		return session.Claims{}, errors.New("read userinfo: it is about another person")
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return session.Claims{}, fmt.Errorf("read userinfo: %w", err)
	}
	for name, value := range more {
		if _, known := claims.Values[name]; !known {
			claims.Values[name] = value
		}
	}
	claims.Complete = true
	return claims, nil
}

// isLacking reports whether claims that the document names are missing.
func isLacking(spec catalog.IdentityProviderSpec, values map[string]any) bool {
	wanted := []string{spec.UsernameClaim, spec.GroupsClaim}
	if spec.GroupsClaim == "" {
		wanted[1] = "groups"
	}
	for _, requirement := range spec.Require {
		wanted = append(wanted, requirement.Claim)
	}
	return slices.ContainsFunc(wanted, func(name string) bool {
		_, known := values[name]
		return name != "" && !known
	})
}

// context returns the context of the calls of one sign-in or renewal.
func (e *endpoint) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	return oidc.ClientContext(ctx, e.http), cancel
}

// endpoint returns the description of a provider, and asks it where that is too old. An older
// description serves while the provider does not answer.
func (c *Client) endpoint(ctx context.Context, provider *catalog.IdentityProvider) (*endpoint, error) {
	known := c.find(provider)
	if known != nil {
		age := time.Since(known.at)
		switch {
		case known.err == nil && age < discoveredFor:
			return known, nil
		case known.err != nil && age < failedFor:
			return nil, known.err
		}
	}
	key := fmt.Sprintf("%s %d", provider.UID, provider.ResourceVersion)
	found, err, _ := c.asked.Do(key, func() (any, error) {
		// The first caller may hang up; the others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		e, err := c.discover(ctx, provider)
		if err != nil && known != nil && known.err == nil {
			stale := *known
			stale.at = time.Now().Add(failedFor - discoveredFor)
			c.keep(provider, &stale)
			return &stale, nil
		}
		if err != nil {
			err = fmt.Errorf("discover identity provider %s: %w", provider.Name, err)
			e = &endpoint{err: err}
		}
		e.resourceVersion, e.at = provider.ResourceVersion, time.Now()
		c.keep(provider, e)
		return e, err
	})
	if err != nil {
		return nil, err
	}
	e, _ := found.(*endpoint)
	return e, nil
}

func (c *Client) find(provider *catalog.IdentityProvider) *endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[provider.UID]; known != nil && known.resourceVersion == provider.ResourceVersion {
		return known
	}
	return nil
}

// keep remembers a provider. Deleted ones are few and small.
func (c *Client) keep(provider *catalog.IdentityProvider, e *endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[provider.UID] = e
}

// discover asks a provider what it is.
func (c *Client) discover(ctx context.Context, provider *catalog.IdentityProvider) (*endpoint, error) {
	spec := provider.Spec
	clientSecret, err := c.p.Secrets.ProviderSecret(ctx, provider.UID)
	if err != nil {
		return nil, err
	}
	e := &endpoint{}
	if e.http, err = newHTTPClient(c.p.Guard, spec.CAPEM); err != nil {
		return nil, err
	}
	if e.provider, err = oidc.NewProvider(oidc.ClientContext(ctx, e.http), spec.Issuer); err != nil {
		if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
			return nil, fmt.Errorf("it calls itself %.200q; correct spec.issuer", mismatch.Discovered)
		}
		return nil, firstLine(err)
	}
	if err := e.provider.Claims(&e.metadata); err != nil {
		return nil, fmt.Errorf("read its description: %w", err)
	}
	if err := e.metadata.check(spec.Issuer); err != nil {
		return nil, err
	}
	keys := *e.http
	keys.Transport = newPacedKeys(e.http.Transport)
	e.verifier = e.provider.VerifierContext(oidc.ClientContext(context.WithoutCancel(ctx), &keys), &oidc.Config{
		ClientID: spec.ClientID, Now: func() time.Time { return time.Now().Add(-skew) },
	})
	e.oauth = oauth2.Config{
		ClientID: spec.ClientID, ClientSecret: clientSecret.Reveal(), RedirectURL: c.p.RedirectURI, Scopes: e.metadata.scopes(spec),
		Endpoint: oauth2.Endpoint{AuthURL: e.metadata.Authorization, TokenURL: e.metadata.Token, AuthStyle: e.metadata.authStyle(clientSecret)},
	}
	return e, nil
}

// check refuses addresses that are less protected than the issuer's own.
func (m metadata) check(issuer string) error {
	own, err := url.Parse(issuer)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"authorization_endpoint": m.Authorization, "token_endpoint": m.Token, "jwks_uri": m.Keys, "userinfo_endpoint": m.UserInfo,
	} {
		if text == "" && name == "userinfo_endpoint" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || own.Scheme != "http") {
			return fmt.Errorf("its %s %.200q is not an https URL", name, text)
		}
	}
	return nil
}

// authStyle returns how the client's secret is sent, without trying: a wrong try would use up the
// code.
func (m metadata) authStyle(clientSecret secret.Text) oauth2.AuthStyle {
	if clientSecret != "" && (len(m.AuthMethods) == 0 || slices.Contains(m.AuthMethods, "client_secret_basic")) {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// scopes returns the scopes to request.
func (m metadata) scopes(spec catalog.IdentityProviderSpec) []string {
	scopes := []string{oidc.ScopeOpenID}
	if len(spec.Scopes) == 0 {
		scopes = append(scopes, "profile", "email")
	}
	scopes = append(scopes, spec.Scopes...)
	if slices.Contains(m.Scopes, oidc.ScopeOfflineAccess) {
		scopes = append(scopes, oidc.ScopeOfflineAccess)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}
