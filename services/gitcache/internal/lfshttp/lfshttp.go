// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package lfshttp downloads Git LFS objects: the Batch API, with basic transfers, over the way that
// leads to the repository.
package lfshttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack/route"
)

const (
	userAgent = "git-lfs/3.0 (leat)"
	// maxBatch is how many objects one request asks for, as git-lfs does.
	maxBatch = 100
	// downloads is how many objects of one repository come at once.
	downloads    = 4
	maxRedirects = 5
)

// Upstreams reaches what belongs to a repository as its definition prescribes.
type Upstreams interface {
	// LFS returns the URL of the repository's LFS server, and headers for requests to that host.
	LFS(ctx context.Context, def mirror.Definition, guard func() error) (string, map[string]string, error)
	// Carrier carries requests, and adds the repository's credential to those for its own host if
	// asked to.
	Carrier(def mirror.Definition, guard func() error, credential bool) (http.RoundTripper, error)
	// Explain makes an error for people of what Carrier, LFS or Refused gave.
	Explain(err error, def mirror.Definition) error
	// Refused makes an error of an answer that is not success.
	Refused(resp *http.Response) error
}

// Client implements [lfs.Server]. It may be used concurrently.
type Client struct{ upstreams Upstreams }

var _ lfs.Server = (*Client)(nil)

// New returns a Client.
func New(upstreams Upstreams) *Client { return &Client{upstreams: upstreams} }

// Fetch implements [lfs.Server].
func (c *Client) Fetch(ctx context.Context, r lfs.Request, take func(lfs.Want, io.Reader, error)) error {
	t, err := c.dial(ctx, r)
	if err != nil {
		return c.explain(ctx, err, r)
	}
	defer t.close()
	t.take = take
	for left := r.Wants; len(left) > 0; {
		n := min(len(left), maxBatch)
		late, err := t.round(ctx, left[:n])
		if err != nil {
			return c.explain(ctx, err, r)
		}
		left = append(late, left[n:]...)
	}
	return nil
}

func (c *Client) explain(ctx context.Context, err error, r lfs.Request) error {
	if gone := r.Guard(); gone != nil {
		return gone
	}
	if ctx.Err() != nil {
		return fmt.Errorf("fetch lfs objects: %w", context.Cause(ctx))
	}
	return c.upstreams.Explain(err, r.Definition)
}

// talk is one conversation with an LFS server.
type talk struct {
	client  *Client
	request lfs.Request
	server  *url.URL          // the API's base
	header  map[string]string // for the server's own host
	// known adds the repository's credential where it belongs, plain never does.
	known, plain *http.Client
	foreign      bool // .lfsconfig names another host
	take         func(lfs.Want, io.Reader, error)
}

func (c *Client) dial(ctx context.Context, r lfs.Request) (*talk, error) {
	address, header, err := c.upstreams.LFS(ctx, r.Definition, r.Guard)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("lfs server's url is not a url")
	}
	known, err := c.upstreams.Carrier(r.Definition, r.Guard, true)
	if err != nil {
		return nil, err
	}
	plain, err := c.upstreams.Carrier(r.Definition, r.Guard, false)
	if err != nil {
		return nil, err
	}
	t := &talk{client: c, request: r, server: server, header: header}
	t.configure(r.URL)
	t.known, t.plain = t.newClient(known), t.newClient(plain)
	return t, nil
}

// configure follows .lfsconfig to another place at the same host. Elsewhere, a person who may push
// could choose where gitcache goes.
func (t *talk) configure(address string) {
	if address == "" || len(t.header) > 0 {
		return
	}
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !route.SameOrigin(u, t.server) {
		t.foreign = true
		return
	}
	t.server = u.JoinPath()
}

func (t *talk) newClient(carrier http.RoundTripper) *http.Client {
	return &http.Client{Transport: carrier, CheckRedirect: t.checkRedirect}
}

// checkRedirect never leaves encryption, and takes no header along to another host.
func (t *talk) checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return errRedirect
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return errRedirect
	case first.Method == http.MethodPost && (req.Method != http.MethodPost || !route.SameOrigin(req.URL, first.URL)):
		return errRedirect
	}
	if !route.SameOrigin(req.URL, first.URL) {
		clear(req.Header)
		req.Header.Set("User-Agent", userAgent)
	}
	return nil
}

var errRedirect = &mirror.UpstreamError{
	Reason: reason.UpstreamProtocol, Message: "The LFS server redirects to where Leat does not follow: another host, or plain HTTP.",
}

func (t *talk) close() {
	t.known.CloseIdleConnections()
	t.plain.CloseIdleConnections()
}

// round asks for a batch, downloads what it offers, and returns what came too late for its address.
func (t *talk) round(ctx context.Context, wants []lfs.Want) (late []lfs.Want, err error) {
	offers, err := t.batch(ctx, wants)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	waiting := make([]bool, len(wants))
	for i, w := range wants {
		group.Go(func() error {
			offer := offers[w.OID]
			if offer.expired() {
				waiting[i] = true
				return nil
			}
			return t.get(ctx, w, offer)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, w := range wants {
		if waiting[i] {
			late = append(late, w)
		}
	}
	return late, nil
}

// get downloads one object. The error ends the conversation; what concerns the object alone goes to
// take.
func (t *talk) get(ctx context.Context, w lfs.Want, o offer) error {
	if missing := t.missing(w, o); missing != nil {
		t.take(w, nil, missing)
		return nil
	}
	resp, err := t.download(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		t.take(w, body{Reader: resp.Body, explain: func(err error) error { return t.broken(ctx, err) }}, nil)
	case http.StatusNotFound, http.StatusGone:
		t.take(w, nil, &lfs.MissingError{Path: w.Path, OID: w.OID, Said: "the store behind the LFS server does not have it"})
	default:
		return t.client.upstreams.Refused(resp)
	}
	return nil
}

// broken explains why an object did not come whole. Where another object's failure has ended the
// conversation, that is why.
func (t *talk) broken(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return t.client.upstreams.Explain(err, t.request.Definition)
}

// body explains what breaks while it is read.
type body struct {
	io.Reader
	explain func(error) error
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return the bare value
		err = b.explain(err)
	}
	return n, err
}
