// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	rememberTokens = 10_000
	// maxTokenAnswer bounds the answer of a token server.
	maxTokenAnswer = 128 << 10
	// minLifetime is how long a token is good that does not say so (distribution's token
	// specification), maxLifetime bounds what one says.
	minLifetime = 60 * time.Second
	maxLifetime = 12 * time.Hour
	// expiresEarly is how long before its end a token is not used any more.
	expiresEarly = 10 * time.Second
	// basicLifetime is how long it is remembered that a registry takes the credential itself.
	basicLifetime = time.Hour
)

// errAnswer marks an answer that is not what a registry or a token server gives.
var errAnswer = errors.New("answer is not that of a registry")

// tokens remember which header a registry took. They may be used concurrently.
type tokens struct {
	known *lru.Cache[string, remembered]
}

type remembered struct {
	header string
	until  time.Time
}

func newTokens() (*tokens, error) {
	known, err := lru.New[string, remembered](rememberTokens)
	return &tokens{known: known}, err
}

func (t *tokens) get(key string, now time.Time) string {
	r, ok := t.known.Get(key)
	if !ok || !now.Before(r.until) {
		return ""
	}
	return r.header
}

func (t *tokens) put(key, header string, until time.Time) {
	t.known.Add(key, remembered{header: header, until: until.Add(-expiresEarly)})
}

func (t *tokens) forget(key string) { t.known.Remove(key) }

func basicHeader(l upstream.DockerLogin) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password.Reveal()))
}

// trade asks a token server for a token, with the credential if there is one. No redirect is followed.
func (a *authorizer) trade(ctx context.Context, realm *url.URL, service string, login upstream.DockerLogin) (string, time.Duration, error) {
	req, err := a.tokenRequest(ctx, realm, service, login)
	if err != nil {
		return "", 0, err
	}
	resp, err := a.carrier.RoundTrip(req)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusBadRequest:
		return "", 0, &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected, Message: a.rejection(realm, login, resp.StatusCode)}
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		return "", 0, a.refused(resp)
	case resp.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("%w: the token server %s has status %d", errAnswer, realm.Host, resp.StatusCode)
	}
	return parseToken(resp.Body)
}

func (a *authorizer) rejection(realm *url.URL, login upstream.DockerLogin, status int) string {
	if isEmpty(login) {
		return fmt.Sprintf("%s gives no token without a credential (HTTP status %d); add one to the repository's spec.", realm.Host, status)
	}
	return fmt.Sprintf("%s refused the credential (HTTP status %d); replace it in the repository's spec, or give it the right to pull.", realm.Host, status)
}

// tokenRequest makes the request of the distribution project's token specification or, for an
// identity token, that of its OAuth2 one.
func (a *authorizer) tokenRequest(ctx context.Context, realm *url.URL, service string, login upstream.DockerLogin) (*http.Request, error) {
	if login.Refresh != "" {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {login.Refresh.Reveal()}, "client_id": {userAgent},
			"service": {service}, "scope": {a.scope},
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
		if err != nil {
			return nil, errAnswer
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("User-Agent", userAgent)
		return req, nil
	}
	to := *realm
	values := to.Query()
	values.Set("scope", a.scope)
	if service != "" {
		values.Set("service", service)
	}
	to.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, errAnswer
	}
	req.Header.Set("User-Agent", userAgent)
	if login.Password != "" {
		req.Header.Set("Authorization", basicHeader(login))
	}
	return req, nil
}

// parseToken reads a token and how long it is good.
func parseToken(body io.Reader) (string, time.Duration, error) {
	var got struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxTokenAnswer)).Decode(&got); err != nil {
		return "", 0, fmt.Errorf("%w: a token server answers without JSON", errAnswer)
	}
	token := got.Token
	if token == "" {
		token = got.AccessToken
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", 0, fmt.Errorf("%w: a token server gives no token", errAnswer)
	}
	lifetime := min(time.Duration(min(got.ExpiresIn, int64(maxLifetime/time.Second)))*time.Second, maxLifetime)
	return token, max(lifetime, minLifetime), nil
}
