// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
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
	client *http.Client
	close  func()
	base   string // where the repository is, after redirects
	agent  string
	offer  *Offer
	newest bool      // ask for version 2
	two    *version2 // nil where the first version is spoken
}

func (c *Client) newHTTPSession(p mirror.FetchParams, t target) (*httpSession, error) {
	way, roots, err := c.newRoute(t.def, p, c.written(t.def)...)
	if err != nil {
		return nil, err
	}
	origin, err := url.Parse(t.def.URL)
	if err != nil {
		return nil, fmt.Errorf("parse url: %w", err)
	}
	carriers, err := newTransports(way, origin, t.def.Credential, roots)
	if err != nil {
		return nil, err
	}
	app, err := c.newAppTokens(t.def)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: authorizer{
			next: gated{next: carriers, hosts: c.hosts}, origin: origin, credential: t.def.Credential, guard: p.Guard, app: app,
		},
		CheckRedirect: checkRedirect,
	}
	base := strings.TrimSuffix(origin.Redacted(), "/")
	return &httpSession{client: client, close: carriers.CloseIdleConnections, base: base, agent: c.agent, newest: c.version2}, nil
}

// checkRedirect lets only the first request of a session be sent elsewhere, and never from
// encrypted to plain.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d redirects", ErrBroken, maxRedirects)
	case req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, refsPath):
		return fmt.Errorf("%w: redirect to %s is not followed", ErrBroken, req.URL.Host)
	case via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: redirect from https to %s is not followed", ErrBroken, req.URL.Scheme)
	}
	return nil
}

// Advertise implements [Session].
func (s *httpSession) Advertise(ctx context.Context) (*Offer, error) {
	resp, err := s.do(ctx, http.MethodGet, s.base+refsPath+"?service=git-upload-pack", nil, advertType)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	final := *resp.Request.URL
	final.RawQuery = ""
	s.base = strings.TrimSuffix(final.String(), refsPath)
	r := peekable(io.LimitReader(resp.Body, maxAdvertised))
	if !s.newest || !isVersion2(r) {
		s.offer, err = readOffer(r, s.agent)
		return s.offer, err
	}
	if s.two, err = readVersion2(r, s.agent); err != nil {
		return nil, err
	}
	discardRest(r)
	s.two.apart = true
	s.two.send = func(ctx context.Context, command string) (io.ReadCloser, error) {
		return s.send(ctx, strings.NewReader(command))
	}
	return s.two.listRefs(ctx)
}

// Fetch implements [Session]. It lets the upstream say first what both sides have, where it can: it
// may be of the kind that demands to. Most answer with the pack in the same breath, others are
// asked once more for it.
func (s *httpSession) Fetch(ctx context.Context, r Request) (io.ReadCloser, error) {
	if s.two != nil {
		return s.two.fetch(ctx, r)
	}
	req := s.offer.encode(r)
	if len(req.Haves) == 0 || !multiAck(req) {
		return s.finish(ctx, req, req.Haves)
	}
	body, err := s.post(ctx, req, req.Haves, false)
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(body)
	said, err := readRound(reader, req.Capabilities.Supports(capNoDone))
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	if said.pack {
		return openPack(reader, body, req), nil
	}
	discardRest(reader)
	if err := body.Close(); err != nil {
		return nil, fmt.Errorf("read acknowledgements: %w", err)
	}
	return s.finish(ctx, req, said.common)
}

// maxRest is how much of an answer is read only to keep its connection.
const maxRest = 4 << 10

// discardRest reads what is left of an answer: else its connection could not be used again.
func discardRest(r io.Reader) { _, _ = io.Copy(io.Discard, io.LimitReader(r, maxRest)) }

func (s *httpSession) finish(ctx context.Context, req *packp.UploadPackRequest, haves []plumbing.Hash) (io.ReadCloser, error) {
	body, err := s.post(ctx, req, haves, true)
	if err != nil {
		return nil, err
	}
	return decodePack(bufio.NewReader(body), body, req)
}

func (s *httpSession) post(ctx context.Context, req *packp.UploadPackRequest, haves []plumbing.Hash, done bool) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := encodeRequest(&body, req, haves, done); err != nil {
		return nil, err
	}
	return s.send(ctx, &body)
}

func (s *httpSession) send(ctx context.Context, body io.Reader) (io.ReadCloser, error) {
	resp, err := s.do(ctx, http.MethodPost, s.base+"/git-upload-pack", body, resultType)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (s *httpSession) do(ctx context.Context, method, address string, body io.Reader, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("User-Agent", s.agent)
	req.Header.Set("Accept", accept)
	if s.two != nil || (s.newest && s.offer == nil) { // who answered in the first version is held to it
		req.Header.Set("Git-Protocol", version2Wanted)
	}
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

// maxSaid bounds what is read of the words beside an HTTP status.
const maxSaid = 1 << 10

// statusError is an HTTP status that is not success.
type statusError struct {
	status     int
	host       string
	retryAfter time.Duration
	said       string // what the server says for people, if it does
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d from %s", e.status, e.host) }

func checkResponse(resp *http.Response, want string) error {
	if resp.StatusCode != http.StatusOK {
		failed := &statusError{
			status: resp.StatusCode, host: resp.Request.URL.Host, retryAfter: retryAfter(resp.Header.Get("Retry-After")),
		}
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") { // Git servers write it for people who use git
			said, _ := io.ReadAll(io.LimitReader(resp.Body, maxSaid)) // what has arrived is enough
			failed.said = string(said)
		}
		return failed
	}
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, want) {
		return &contentError{host: resp.Request.URL.Host, got: printable(got), dumb: isDumb(resp.Body)}
	}
	return nil
}

// contentError is an answer that is not of the Git protocol.
type contentError struct {
	host string
	got  string // its content type
	dumb bool   // a list of refs, from a server of plain files
}

func (e *contentError) Error() string {
	return fmt.Sprintf("content type %q from %s is not the Git protocol's", e.got, e.host)
}

// dumbLine is how the list of refs of a repository begins that is served as plain files.
var dumbLine = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?\trefs/`)

func isDumb(body io.Reader) bool {
	return dumbLine.MatchReader(bufio.NewReader(io.LimitReader(body, maxRest)))
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
	s.close()
	return nil
}
