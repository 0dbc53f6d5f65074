// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfshttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack/route"
)

const (
	mediaType = "application/vnd.git-lfs+json"
	// maxAnswer bounds the answer about one batch.
	maxAnswer = 4 << 20
	// margin is how long before its end an address counts as expired, and how long a new one is used
	// regardless of clocks.
	margin   = 5 * time.Second
	transfer = "basic"
)

// batchRequest is the body of POST …/objects/batch.
type batchRequest struct {
	Operation string   `json:"operation"`
	Transfers []string `json:"transfers"`
	Objects   []object `json:"objects"`
	HashAlgo  string   `json:"hash_algo"`
}

type object struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

type batchResponse struct {
	Transfer string  `json:"transfer"`
	Objects  []offer `json:"objects"`
	HashAlgo string  `json:"hash_algo"`
}

// offer is the server's answer about one object.
type offer struct {
	object
	Authenticated bool `json:"authenticated"`
	Actions       struct {
		Download *action `json:"download"`
	} `json:"actions"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`

	asked time.Time
}

// action is where an object is, and what to send along.
type action struct {
	Href      string            `json:"href"`
	Header    map[string]string `json:"header"`
	ExpiresIn int64             `json:"expires_in"` // seconds; counts before ExpiresAt
	ExpiresAt time.Time         `json:"expires_at"`
}

// batch asks where objects are. The answer has an offer for each of them.
func (t *talk) batch(ctx context.Context, wants []lfs.Want) (map[string]offer, error) {
	resp, err := t.ask(ctx, wants)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	offers := make(map[string]offer, len(wants))
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone, http.StatusNotImplemented:
		return offers, nil // the repository's host has no LFS, or hides it: nothing is offered
	default:
		return nil, t.client.upstreams.Refused(resp)
	}
	var answer batchResponse
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, t.spoil(fmt.Errorf("read batch answer: %w", err))
	}
	if (answer.Transfer != "" && answer.Transfer != transfer) || (answer.HashAlgo != "" && answer.HashAlgo != "sha256") {
		return nil, t.spoil(fmt.Errorf("transfer %q, hash %q", answer.Transfer, answer.HashAlgo))
	}
	for _, o := range answer.Objects {
		o.asked = time.Now()
		offers[o.OID] = o
	}
	return offers, nil
}

func (t *talk) spoil(err error) error {
	return &mirror.UpstreamError{
		Reason: reason.UpstreamProtocol, Message: t.server.Host + " does not answer with the Git LFS Batch API; check the URL.", Cause: err,
	}
}

func (t *talk) ask(ctx context.Context, wants []lfs.Want) (*http.Response, error) {
	question := batchRequest{Operation: "download", Transfers: []string{transfer}, HashAlgo: "sha256"}
	for _, w := range wants {
		question.Objects = append(question.Objects, object{OID: w.OID, Size: w.Size})
	}
	text, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("make batch request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.server.JoinPath("objects", "batch").String(), bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make batch request: %w", err)
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", mediaType)
	req.Header.Set("Content-Type", mediaType)
	t.grant(req)
	return t.known.Do(req)
}

// grant adds what the server was reached with, where the request goes to its host.
func (t *talk) grant(req *http.Request) {
	if !route.SameOrigin(req.URL, t.server) {
		return
	}
	for name, value := range t.header {
		req.Header.Set(name, value)
	}
}

// missing tells why there is nothing to download; nil: there is.
func (t *talk) missing(w lfs.Want, o offer) error {
	switch {
	case o.Error != nil:
		said := strings.Map(printable, o.Error.Message)
		return &lfs.MissingError{Path: w.Path, OID: w.OID, Said: fmt.Sprintf("the LFS server says %q (%d)", cut(said), o.Error.Code)}
	case o.Actions.Download == nil && t.foreign:
		return &lfs.MissingError{Path: w.Path, OID: w.OID, Said: "the commit's .lfsconfig names another host, and Leat looks only at the repository's own"}
	case o.Actions.Download == nil:
		return &lfs.MissingError{Path: w.Path, OID: w.OID, Said: "the repository's host offers no LFS, or not this object"}
	default:
		return nil
	}
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}

func cut(said string) string {
	const enough = 200
	return strings.ToValidUTF8(said[:min(len(said), enough)], "")
}

func (o offer) expired() bool {
	a := o.Actions.Download
	switch {
	case a == nil || time.Since(o.asked) < margin:
		return false
	case a.ExpiresIn > 0:
		return time.Since(o.asked) > time.Duration(a.ExpiresIn)*time.Second-margin
	default:
		return !a.ExpiresAt.IsZero() && time.Until(a.ExpiresAt) < margin
	}
}

// download asks for one object. Our credential goes along only to our host, and only where the
// server gave no other.
func (t *talk) download(ctx context.Context, o offer) (*http.Response, error) {
	to, err := url.Parse(o.Actions.Download.Href)
	if err != nil || to.Host == "" || (to.Scheme != "https" && to.Scheme != "http") {
		return nil, t.spoil(fmt.Errorf("address of object %s is none", o.OID))
	}
	if t.server.Scheme == "https" && to.Scheme != "https" {
		return nil, errRedirect
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("User-Agent", userAgent)
	for name, value := range o.Actions.Download.Header {
		req.Header.Set(name, value)
	}
	if o.Authenticated || req.Header.Get("Authorization") != "" {
		return t.plain.Do(req)
	}
	t.grant(req)
	return t.known.Do(req)
}
