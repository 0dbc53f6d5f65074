// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	userAgent    = "leat (helm)"
	indexFile    = "index.yaml"
	maxRedirects = 5
	// maxValidator bounds the kept part of a server's validator of its index.
	maxValidator = 512
)

// client sends the requests of one fetch or fill.
type client struct {
	http     *http.Client
	refused  func(*http.Response) error
	received func(bytes int) // nil: no counter
	base     *url.URL        // the repository's URL, with a slash at its end
}

// dial returns a client, which the caller closes. It sends nothing.
func (u *Upstream) dial(p mirror.FetchParams) (*client, error) {
	base, err := url.Parse(strings.TrimRight(p.Definition.URL, "/") + "/")
	if err != nil {
		return nil, &mirror.FieldError{Field: "url", Message: "It is not a URL."}
	}
	carrier, err := u.Carrier(p.Definition, p.Guard, true)
	if err != nil {
		return nil, err
	}
	return &client{
		http: &http.Client{Transport: carrier, CheckRedirect: checkRedirect}, refused: u.Refused, received: p.Received, base: base,
	}, nil
}

// close drops the connections: the next fetch has another guard.
func (c *client) close() { c.http.CloseIdleConnections() }

// checkRedirect never leaves encryption. The carrier keeps the credential from other hosts.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return &mirror.UpstreamError{Reason: reason.UpstreamProtocol, Message: "The repository redirects too often; check the URL."}
	case req.URL.Scheme != "https" && (req.URL.Scheme != "http" || via[0].URL.Scheme == "https"):
		return &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: fmt.Sprintf("The repository redirects from https to %s, which is not followed; check the URL.", req.URL.Scheme),
		}
	}
	return nil
}

// validators are the conditions of a request for the index. The zero validators are none.
type validators struct{ etag, modified string }

func (v validators) isZero() bool { return v == validators{} }

// indexCopy is an index as it came, in a file without a name. The zero indexCopy is an index that
// has not changed.
type indexCopy struct {
	file       *os.File
	size       int64
	sum        string
	validators validators
}

func (x indexCopy) isUnchanged() bool { return x.file == nil }

func (x indexCopy) source() chartindex.Source {
	return chartindex.Source{ReaderAt: x.file, Size: x.size}
}

func (x indexCopy) close() {
	if x.file != nil {
		_ = x.file.Close()
	}
}

// header returns what the next fetch has to know of an index that lists listed.
func (x indexCopy) header(p mirror.FetchParams, listed *chartindex.Index) header {
	return header{
		Version: memoVersion, For: dependsOn(p.Definition), ETag: x.validators.etag, Modified: x.validators.modified, Sum: x.sum,
		Charts: len(listed.Charts), Skipped: listed.Skipped, Reasons: listed.Reasons,
	}
}

// getIndex asks for the index once. The caller closes the copy that it returns.
func (c *client) getIndex(ctx context.Context, into spool, known validators) (indexCopy, error) {
	header := http.Header{"Accept": {"application/yaml, text/yaml, application/json, */*;q=0.5"}}
	if known.etag != "" {
		header.Set("If-None-Match", known.etag)
	}
	if known.modified != "" {
		header.Set("If-Modified-Since", known.modified)
	}
	resp, err := c.get(ctx, c.base.JoinPath(indexFile).String(), header)
	if err != nil {
		return indexCopy{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return c.receive(into, resp)
	case http.StatusNotModified:
		if !known.isZero() {
			return indexCopy{}, nil
		}
	case http.StatusNotFound, http.StatusGone:
		return indexCopy{}, &mirror.UpstreamError{
			Reason: reason.RepositoryNotFound, Message: fmt.Sprintf("%s has no %s at this URL, or hides it from this credential; check the URL: "+
				"it is what `helm repo add` takes.", c.base.Host, indexFile),
		}
	}
	return indexCopy{}, c.refuse(resp)
}

// refuse returns an answer that is not success as an error.
func (c *client) refuse(resp *http.Response) error {
	switch status := resp.StatusCode; {
	case status < http.StatusBadRequest, status == http.StatusBadRequest, status == http.StatusMethodNotAllowed, status == http.StatusNotAcceptable:
		return &mirror.UpstreamError{
			Reason:  reason.UpstreamProtocol,
			Message: fmt.Sprintf("%s answers with HTTP status %d, as no Helm repository does; check the URL.", resp.Request.URL.Host, status),
		}
	default:
		return c.refused(resp)
	}
}

// spool is where an index goes.
type spool struct {
	dir      string
	maxBytes int64
}

func (u *Upstream) newSpool() spool { return spool{dir: u.params.TempDir, maxBytes: u.params.MaxIndex} }

// receive copies an index to a file that has no name any more. Decompressed bytes count as they
// come out.
func (c *client) receive(into spool, resp *http.Response) (indexCopy, error) {
	file, err := os.CreateTemp(into.dir, "index-*")
	if err != nil {
		return indexCopy{}, fmt.Errorf("keep index: %w", err)
	}
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(c.count(resp.Body), into.maxBytes+1))
	if size > into.maxBytes {
		err = &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: fmt.Sprintf("The index has more than %d bytes, which are not read; split the repository.", into.maxBytes),
		}
	}
	if err = errors.Join(err, os.Remove(file.Name())); err != nil {
		return indexCopy{}, errors.Join(fmt.Errorf("receive index: %w", err), file.Close())
	}
	return indexCopy{
		file: file, size: size, sum: hex.EncodeToString(hash.Sum(nil)),
		validators: validators{etag: bounded(resp.Header.Get("ETag")), modified: settledTime(resp.Header)},
	}, nil
}

// getArchive asks for an archive. The caller closes the body of the answer, which is success.
func (c *client) getArchive(ctx context.Context, address string) (*http.Response, error) {
	u, err := c.archiveURL(address)
	if err != nil {
		return nil, err
	}
	// Without an explicit wish the transport would unpack an archive that the server, which means to
	// describe the file, calls gzip; and its digest would not be right.
	resp, err := c.get(ctx, address, http.Header{"Accept-Encoding": {"identity"}})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
		return nil, &mirror.ArtifactError{
			Reason: reason.RefNotFound, Message: fmt.Sprintf("%s has no archive at %s, which the index names; publish it again, or correct the index.", u.Host, u.Path),
		}
	}
	return nil, c.refuse(resp)
}

// archiveURL reads the address of an archive, which the index names.
func (c *client) archiveURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || c.base.Scheme == "https") {
		return nil, &mirror.ArtifactError{
			Reason: reason.ContentUnsupported,
			Message: "The index names an archive that is not at https, or at http where the repository itself is: " +
				"correct the URLs of the index (`helm repo index --url`).",
		}
	}
	return u, nil
}

// provenanceSuffix follows the path of an archive in the address of its provenance file.
const provenanceSuffix = ".prov"

// getProvenance asks for the provenance file of an archive. Nil: there is none. Stores of objects
// answer "forbidden" for missing objects, so that is not a failure.
func (c *client) getProvenance(ctx context.Context, address string) ([]byte, error) {
	u, err := c.archiveURL(address)
	if err != nil {
		return nil, err
	}
	u.Path += provenanceSuffix
	if u.RawPath != "" {
		u.RawPath += provenanceSuffix
	}
	resp, err := c.get(ctx, u.String(), http.Header{"Accept-Encoding": {"identity"}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		message, err := io.ReadAll(io.LimitReader(c.count(resp.Body), attestation.MaxProvenance+1))
		if message == nil {
			message = []byte{}
		}
		return message, err
	case http.StatusNotFound, http.StatusGone, http.StatusForbidden:
		return nil, nil
	}
	return nil, c.refuse(resp)
}

func (c *client) get(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = header
	req.Header.Set("User-Agent", userAgent)
	return c.http.Do(req)
}

// count counts the bytes read of a body.
func (c *client) count(body io.Reader) io.Reader {
	if c.received == nil {
		return body
	}
	return counted{Reader: body, received: c.received}
}

type counted struct {
	io.Reader
	received func(bytes int)
}

// Read implements io.Reader.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if n > 0 {
		c.received(n)
	}
	return n, err
}

// settledTime returns the time of a file that was not changed within the last second, as its server
// has it, or "". Times have seconds: the file may change again within the same one (RFC 9110, section
// 8.8.2.2).
func settledTime(header http.Header) string {
	modified := header.Get("Last-Modified")
	at, err := http.ParseTime(modified)
	now, err2 := http.ParseTime(header.Get("Date"))
	if err != nil || err2 != nil || now.Sub(at) < 2*time.Second {
		return ""
	}
	return modified
}

// bounded returns a header's value, or "" where it is too long to be kept.
func bounded(value string) string {
	if len(value) > maxValidator {
		return ""
	}
	return value
}

// explain turns a failure into what [mirror.Upstream] promises.
func (u *Upstream) explain(ctx context.Context, err error, p mirror.FetchParams) error {
	if gone := p.Guard(); gone != nil {
		return gone
	}
	if ctx.Err() != nil {
		return fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
	if errors.Is(err, mirror.ErrNotReady) { // the mirror went while an archive was on its way
		return err
	}
	if bad, ok := errors.AsType[*mirror.ArtifactError](err); ok {
		return bad
	}
	return u.Explain(err, p.Definition)
}
