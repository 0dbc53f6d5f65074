// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	refsPath     = "/info/refs"
	maxRedirects = 5
	advertType   = "application/x-git-upload-pack-advertisement"
	requestType  = "application/x-git-upload-pack-request"
	resultType   = "application/x-git-upload-pack-result"
)

// httpSession speaks smart HTTP, stateless: an advertisement and a request are two HTTP requests.
type httpSession struct {
	client    *http.Client
	transport *http.Transport
	base      string // where the repository is, after redirects
	agent     string
}

func newHTTPSession(d *dialer, t target, agent string) (*httpSession, error) {
	pool, err := certPool(t.def.CAPEM)
	if err != nil {
		return nil, err
	}
	origin, err := url.Parse(t.def.URL)
	if err != nil {
		return nil, fmt.Errorf("parse url: %w", err)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: d.DialContext, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: 2 * time.Minute, IdleConnTimeout: time.Minute,
	}
	client := &http.Client{
		Transport:     authorizer{next: transport, origin: origin, credential: t.def.Credential, guard: d.guard},
		CheckRedirect: checkRedirect,
	}
	base := strings.TrimSuffix(origin.Redacted(), "/")
	return &httpSession{client: client, transport: transport, base: base, agent: agent}, nil
}

// checkRedirect lets only the first request of a session be sent elsewhere, and never from encrypted to plain.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d redirects", errBroken, maxRedirects)
	case req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, refsPath):
		return fmt.Errorf("%w: redirect to %s is not followed", errBroken, req.URL.Host)
	case via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: redirect from https to %s is not followed", errBroken, req.URL.Scheme)
	}
	return nil
}

// authorizer adds the credential to requests for the origin it was given for, and to no others.
type authorizer struct {
	next       http.RoundTripper
	origin     *url.URL
	credential mirror.Credential
	guard      func() error
}

// RoundTrip implements http.RoundTripper.
func (a authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := a.guard(); err != nil {
		return nil, err
	}
	if !a.allowed(req.URL) {
		return a.next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	switch a.credential.Method {
	case mirror.MethodBasic:
		req.SetBasicAuth(a.credential.Username, a.credential.Password.Reveal())
	case mirror.MethodBearer:
		req.Header.Set("Authorization", "Bearer "+a.credential.Token.Reveal())
	case mirror.MethodNone, mirror.MethodSSH: // nothing that HTTP could carry
	}
	return a.next.RoundTrip(req)
}

func (a authorizer) allowed(u *url.URL) bool {
	if u.Scheme != "https" && !a.credential.AllowPlainHTTP {
		return false
	}
	return u.Scheme == a.origin.Scheme && strings.EqualFold(u.Hostname(), a.origin.Hostname()) && port(u) == port(a.origin)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

func certPool(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil //nolint:nilnil // tls takes nil for the system's pool
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("no certificate found in the PEM text")
	}
	return pool, nil
}

func (s *httpSession) advertise(ctx context.Context) (*offer, error) {
	resp, err := s.do(ctx, http.MethodGet, s.base+refsPath+"?service=git-upload-pack", nil, advertType)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	final := *resp.Request.URL
	final.RawQuery = ""
	s.base = strings.TrimSuffix(final.String(), refsPath)
	return readOffer(io.LimitReader(resp.Body, defaultMaxAdvert), s.agent)
}

func (s *httpSession) fetch(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := encodeRequest(&body, req); err != nil {
		return nil, err
	}
	resp, err := s.do(ctx, http.MethodPost, s.base+"/git-upload-pack", &body, resultType) //nolint:bodyclose // closing the pack closes it
	if err != nil {
		return nil, err
	}
	return decodePack(resp.Body, req)
}

func (s *httpSession) do(ctx context.Context, method, address string, body io.Reader, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("User-Agent", s.agent)
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", requestType)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := checkResponse(resp, accept); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

// statusError is an HTTP status that is not success.
type statusError struct {
	status     int
	host       string
	retryAfter time.Duration
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d from %s", e.status, e.host) }

func checkResponse(resp *http.Response, want string) error {
	if resp.StatusCode != http.StatusOK {
		return &statusError{
			status: resp.StatusCode, host: resp.Request.URL.Host, retryAfter: retryAfter(resp.Header.Get("Retry-After")),
		}
	}
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, want) {
		return fmt.Errorf("%w: content type %q, want %q", errBroken, got, want)
	}
	return nil
}

// retryAfter reads both forms of the header: seconds and a date.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// Close drops the session's connections: the next session has another guard.
func (s *httpSession) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}
