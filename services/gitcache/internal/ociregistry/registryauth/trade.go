// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package registryauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// trade asks a token server for a token, with the credential if there is one. No redirect is followed.
func (a *Transport) trade(
	ctx context.Context, realm *url.URL, service string, login upstream.DockerLogin,
) (string, time.Duration, error) {
	req, err := a.tokenRequest(ctx, realm, service, login)
	if err != nil {
		return "", 0, err
	}
	resp, err := a.Carrier.RoundTrip(req)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden ||
		resp.StatusCode == http.StatusBadRequest:
		return "", 0, &mirror.UpstreamError{
			Reason: reason.UpstreamAuthRejected, Message: a.rejection(realm, login, resp.StatusCode),
		}
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		return "", 0, a.Refused(resp)
	case resp.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("%w: the token server %s has status %d", ErrAnswer, realm.Host, resp.StatusCode)
	}
	return parseToken(resp.Body)
}

func (a *Transport) rejection(realm *url.URL, login upstream.DockerLogin, status int) string {
	if isEmpty(login) {
		return fmt.Sprintf(
			"%s gives no token without a credential (HTTP status %d); add one to the repository's spec.", realm.Host,
			status,
		)
	}
	return fmt.Sprintf(
		"%s refused the credential (HTTP status %d); replace it in the repository's spec, or give it the right to pull.",
		realm.Host, status,
	)
}

// tokenRequest makes the request of the distribution project's token specification or, for an
// identity token, the request of its OAuth2 one.
func (a *Transport) tokenRequest(
	ctx context.Context, realm *url.URL, service string, login upstream.DockerLogin,
) (*http.Request, error) {
	if login.Refresh != "" {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {login.Refresh.Reveal()}, "client_id": {userAgent},
			"service": {service}, "scope": {a.Scope},
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
		if err != nil {
			return nil, ErrAnswer
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("User-Agent", userAgent)
		return req, nil
	}
	to := *realm
	values := to.Query()
	values.Set("scope", a.Scope)
	if service != "" {
		values.Set("service", service)
	}
	to.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, ErrAnswer
	}
	req.Header.Set("User-Agent", userAgent)
	if login.Password != "" {
		req.Header.Set("Authorization", basicHeader(login))
	}
	return req, nil
}
