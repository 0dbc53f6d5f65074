// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// loginOf returns what a definition authenticates with; the zero value is nothing.
func loginOf(def mirror.Definition, host string) (upstream.DockerLogin, error) {
	switch c := def.Credential; c.Method {
	case upstream.MethodBasic:
		return upstream.DockerLogin{Username: c.Username, Password: c.Password}, nil
	case upstream.MethodBearer:
		return upstream.DockerLogin{Token: c.Token}, nil
	case upstream.MethodDockerConfig:
		login, err := upstream.ParseDockerConfig(c.DockerConfig, host)
		if err != nil {
			return login, &mirror.FieldError{Field: "credential.docker_config.config_json", Message: "It " + err.Error() + "."}
		}
		return login, nil
	default:
		return upstream.DockerLogin{}, nil
	}
}

// authorizer carries requests to a registry, and answers its challenges. It adds a credential, or a
// token that was traded for one, to requests for the registry alone.
type authorizer struct {
	carrier     http.RoundTripper
	refused     func(*http.Response) error
	base        *url.URL
	scope       string
	login       upstream.DockerLogin
	identity    *cloudIdentity // in the place of login; nil: the credential is none
	allowsPlain bool
	tokenHosts  []string
	tokens      *tokens
	owner       string // of tokens: no two credentials share them
	now         func() time.Time
}

// RoundTrip implements http.RoundTripper. An answer that asks to be left alone, or says that the
// server has a problem, is an error.
func (a *authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	isRegistry := sameOrigin(req.URL, a.base)
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
	if err == nil && resp.StatusCode == http.StatusUnauthorized && a.identity != nil {
		a.tokens.forget(a.key())
		a.identity.forget()
	}
	return resp, err
}

// CloseIdleConnections closes the connections that carry no request now.
func (a *authorizer) CloseIdleConnections() {
	if c, ok := a.carrier.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// send sends a request with a header of its own in the place of any other.
func (a *authorizer) send(req *http.Request, isRegistry bool, header string) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", userAgent)
	req.Header.Del("Authorization")
	if isRegistry && header != "" {
		req.Header.Set("Authorization", header)
	}
	resp, err := a.carrier.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	isLimit := resp.StatusCode == http.StatusTooManyRequests || (resp.StatusCode == http.StatusForbidden && resp.Header.Get("Retry-After") != "")
	if isLimit || resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusProxyAuthRequired {
		return nil, errors.Join(a.refused(resp), resp.Body.Close())
	}
	return resp, nil
}

// header returns what the registry took last, or the token that the credential is.
func (a *authorizer) header() string {
	if !a.canSend(a.base) {
		return ""
	}
	if a.login.Token != "" {
		return "Bearer " + a.login.Token.Reveal()
	}
	return a.tokens.get(a.key(), a.now())
}

func (a *authorizer) key() string { return a.owner + " " + a.scope }

// answer returns the header that a challenge asks for; "" where there is nothing to answer with.
func (a *authorizer) answer(req *http.Request, asked challenge) (string, error) {
	a.tokens.forget(a.key())
	login, ends, err := a.obtain(req.Context())
	if err != nil {
		return "", err
	}
	if asked.scheme == schemeBasic {
		if login.Password == "" || !a.canSend(a.base) {
			return "", nil
		}
		header := basicHeader(login)
		until := a.now().Add(basicLifetime)
		if a.identity != nil && ends.Before(until) {
			until = ends
		}
		a.tokens.put(a.key(), header, until)
		return header, nil
	}
	if login.Token != "" { // was sent already
		return "", nil
	}
	realm, err := url.Parse(asked.realm)
	if err != nil || realm.Host == "" || realm.User != nil || (realm.Scheme != "https" && realm.Scheme != "http") {
		return "", fmt.Errorf("%w: its realm is not a URL", errAnswer)
	}
	if !isEmpty(login) && !a.mayHave(realm) {
		return "", &mirror.UpstreamError{
			Reason: reason.UpstreamAuthRejected,
			Message: fmt.Sprintf("%s asks to send the credential to %s for a token; if that is right, add it to the repository's tokenHosts.",
				a.base.Host, realm.Redacted()),
		}
	}
	if realm.Scheme != "https" && a.base.Scheme == "https" {
		return "", fmt.Errorf("%w: its realm is plain HTTP", errAnswer)
	}
	token, lifetime, err := a.trade(req.Context(), realm, asked.service, login)
	if err != nil {
		return "", err
	}
	header := "Bearer " + token
	a.tokens.put(a.key(), header, a.now().Add(lifetime))
	return header, nil
}

// obtain returns what to authenticate with and, for an identity at a cloud, when that ends.
func (a *authorizer) obtain(ctx context.Context) (upstream.DockerLogin, time.Time, error) {
	if a.identity == nil {
		return a.login, time.Time{}, nil
	}
	return a.identity.login(ctx)
}

// cloudIdentity is a credential that is traded for logins to one registry.
type cloudIdentity struct {
	logins     Logins
	credential upstream.Credential
	registry   *url.URL
	// carrier is not under the guard of the fetch: an exchange touches no repository, and others share
	// its answer.
	carrier http.RoundTripper
}

func (c *cloudIdentity) login(ctx context.Context) (upstream.DockerLogin, time.Time, error) {
	return c.logins.Login(ctx, c.credential, c.registry, c.carrier)
}

func (c *cloudIdentity) forget() { c.logins.Forget(c.credential, c.registry) }

// canSend reports whether a credential may travel to a URL's scheme at all.
func (a *authorizer) canSend(to *url.URL) bool { return to.Scheme == "https" || a.allowsPlain }

// mayHave reports whether a token server may have the credential: the registry itself, a token host,
// or a server that is known to belong to the registry.
func (a *authorizer) mayHave(realm *url.URL) bool {
	if !a.canSend(realm) {
		return false
	}
	host := hostOf(realm)
	return host == hostOf(a.base) && realm.Scheme == a.base.Scheme || knownRealm(a.base.Hostname()) == host ||
		slices.ContainsFunc(a.tokenHosts, func(listed string) bool {
			return hostOf(&url.URL{Scheme: realm.Scheme, Host: listed}) == host
		})
}

// knownRealm returns the token server of a public registry whose realm is at another host.
func knownRealm(registry string) string {
	switch {
	case upstream.IsDockerHub(registry):
		return "auth.docker.io:443"
	case registry == "registry.gitlab.com":
		return "gitlab.com:443"
	}
	return ""
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && hostOf(a) == hostOf(b) }

// hostOf returns host:port of a URL in one spelling.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

func isEmpty(l upstream.DockerLogin) bool {
	return l.Password == "" && l.Refresh == "" && l.Token == ""
}

// The schemes of challenges that are answered.
const (
	schemeBasic  = "basic"
	schemeBearer = "bearer"
)

// challenge is what a registry asks for (RFC 9110, section 11.6.1).
type challenge struct{ scheme, realm, service string }

// maxChallenge bounds the header of a challenge.
const maxChallenge = 8 << 10

// parseChallenges returns the challenge to answer: bearer where the registry offers both.
func parseChallenges(headers []string) (challenge, bool) {
	var best challenge
	for _, header := range headers {
		if len(header) > maxChallenge {
			continue
		}
		scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
		switch strings.ToLower(scheme) {
		case schemeBearer:
			parameters := parseParameters(rest)
			return challenge{scheme: schemeBearer, realm: parameters["realm"], service: parameters["service"]}, true
		case schemeBasic:
			best.scheme = schemeBasic
		}
	}
	return best, best.scheme != ""
}

// parseParameters reads key=value pairs, whose values may be quoted. What cannot be read ends it.
func parseParameters(text string) map[string]string {
	found := map[string]string{}
	for {
		key, rest, ok := strings.Cut(strings.TrimLeft(text, " ,\t"), "=")
		if !ok {
			return found
		}
		value := ""
		if quoted, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
			var b strings.Builder
			i := 0
			for ; i < len(quoted) && quoted[i] != '"'; i++ {
				if quoted[i] == '\\' && i+1 < len(quoted) {
					i++
				}
				b.WriteByte(quoted[i])
			}
			if i == len(quoted) {
				return found
			}
			value, text = b.String(), quoted[i+1:]
		} else {
			value, text, _ = strings.Cut(rest, ",")
		}
		found[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
}
