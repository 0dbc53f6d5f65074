// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package registryauth carries requests to a registry, and authenticates them: it answers the
// registry's challenges, with a credential or with a token that it trades the credential for.
//
// A credential goes to the registry itself, and to a token server only if that is the registry, one
// of the definition's token hosts, or known to belong to it. It goes over TLS unless the credential
// allows plain HTTP. It goes to no redirect, no log and no error. Failures are a
// *mirror.UpstreamError with a reason and what to do, [ErrAnswer], or what the carrier fails with.
//
// A [Transport] and [Tokens] may be used concurrently.
package registryauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// userAgent is the name in requests.
const userAgent = "leat"

// Transport carries requests to a registry, and answers its challenges. It adds a credential, or a
// token that was traded for one, to requests for the registry alone.
type Transport struct {
	Carrier http.RoundTripper
	// Refused makes an error of an answer that is not success.
	Refused     func(*http.Response) error
	Base        *url.URL // of the registry
	Scope       string   // that tokens are asked for
	Login       upstream.DockerLogin
	Identity    *Identity // instead of Login; nil if the credential is no identity
	AllowsPlain bool      // a credential may travel over plain HTTP
	TokenHosts  []string  // that may have the credential, beside the registry
	Tokens      *Tokens
	Owner       string // of Tokens: no two credentials share them
	Now         func() time.Time
}

// RoundTrip implements http.RoundTripper. An answer that asks to be left alone, or reports a
// problem of the server, is an error.
func (a *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	isRegistry := sameOrigin(req.URL, a.Base)
	resp, err := a.send(req, isRegistry, a.header())
	if err != nil || !isRegistry || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	asked, ok := parseChallenges(resp.Header.Values("WWW-Authenticate"))
	if !ok {
		return resp, nil
	}
	header, err := a.answer(req, asked)
	if err != nil || header == "" {
		if err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
		return resp, nil
	}
	_ = resp.Body.Close()
	resp, err = a.send(req, true, header)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && a.Identity != nil {
		a.Tokens.forget(a.key())
		a.Identity.forget()
	}
	return resp, err
}

// CloseIdleConnections closes the connections that carry no request now.
func (a *Transport) CloseIdleConnections() {
	if c, ok := a.Carrier.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// send sends a request with a header of its own in the place of any other.
func (a *Transport) send(req *http.Request, isRegistry bool, header string) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", userAgent)
	req.Header.Del("Authorization")
	if isRegistry && header != "" {
		req.Header.Set("Authorization", header)
	}
	resp, err := a.Carrier.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	isLimit := resp.StatusCode == http.StatusTooManyRequests ||
		(resp.StatusCode == http.StatusForbidden && resp.Header.Get("Retry-After") != "")
	if isLimit || resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusProxyAuthRequired {
		return nil, errors.Join(a.Refused(resp), resp.Body.Close())
	}
	return resp, nil
}

// header returns what the registry took last, or the token that the credential is.
func (a *Transport) header() string {
	if !a.canSend(a.Base) {
		return ""
	}
	if a.Login.Token != "" {
		return "Bearer " + a.Login.Token.Reveal()
	}
	return a.Tokens.get(a.key(), a.Now())
}

func (a *Transport) key() string { return a.Owner + " " + a.Scope }

// answer returns the header that a challenge asks for; "" where there is nothing to answer with.
func (a *Transport) answer(req *http.Request, asked challenge) (string, error) {
	a.Tokens.forget(a.key())
	login, ends, err := a.obtain(req.Context())
	if err != nil {
		return "", err
	}
	if asked.scheme == schemeBasic {
		if login.Password == "" || !a.canSend(a.Base) {
			return "", nil
		}
		header := basicHeader(login)
		until := a.Now().Add(basicLifetime)
		if a.Identity != nil && ends.Before(until) {
			until = ends
		}
		a.Tokens.put(a.key(), header, until)
		return header, nil
	}
	if login.Token != "" { // was sent already
		return "", nil
	}
	realm, err := url.Parse(asked.realm)
	if err != nil || realm.Host == "" || realm.User != nil || (realm.Scheme != "https" && realm.Scheme != "http") {
		return "", fmt.Errorf("%w: its realm is not a URL", ErrAnswer)
	}
	if !isEmpty(login) && !a.mayHave(realm) {
		return "", &mirror.UpstreamError{
			Reason: reason.UpstreamAuthRejected,
			Message: fmt.Sprintf("%s asks to send the credential to %s for a token; "+
				"if that is right, add it to the repository's tokenHosts.",
				a.Base.Host, realm.Redacted()),
		}
	}
	if realm.Scheme != "https" && a.Base.Scheme == "https" {
		return "", fmt.Errorf("%w: its realm is plain HTTP", ErrAnswer)
	}
	token, lifetime, err := a.trade(req.Context(), realm, asked.service, login)
	if err != nil {
		return "", err
	}
	header := "Bearer " + token
	a.Tokens.put(a.key(), header, a.Now().Add(lifetime))
	return header, nil
}

// obtain returns what to authenticate with and, for an identity at a cloud, when that ends.
func (a *Transport) obtain(ctx context.Context) (upstream.DockerLogin, time.Time, error) {
	if a.Identity == nil {
		return a.Login, time.Time{}, nil
	}
	return a.Identity.login(ctx)
}

// canSend reports whether a credential may travel to a URL's scheme at all.
func (a *Transport) canSend(to *url.URL) bool { return to.Scheme == "https" || a.AllowsPlain }

// mayHave reports whether a token server may have the credential: the registry itself, a token host,
// or a server that is known to belong to the registry.
func (a *Transport) mayHave(realm *url.URL) bool {
	if !a.canSend(realm) {
		return false
	}
	host := hostOf(realm)
	return host == hostOf(a.Base) && realm.Scheme == a.Base.Scheme || knownRealm(a.Base.Hostname()) == host ||
		slices.ContainsFunc(a.TokenHosts, func(listed string) bool {
			return hostOf(&url.URL{Scheme: realm.Scheme, Host: listed}) == host
		})
}
