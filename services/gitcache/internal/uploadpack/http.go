// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

const (
	refsPath     = "/info/refs"
	maxRedirects = 5

	// maxSaid bounds the reading of the words beside an HTTP status.
	maxSaid = 1 << 10
)

// program is the one at the upstream that a conversation is with.
type program string

const (
	uploads  program = "git-upload-pack"  // sends what a fetch asks for
	receives program = "git-receive-pack" // takes what is pushed
)

// mediaType returns the content type of one kind of the program's messages.
func (p program) mediaType(kind string) string { return "application/x-" + string(p) + "-" + kind }

// httpChannel speaks smart HTTP, which is stateless: the advertisement and each request are
// exchanges of their own. Only the request for the advertisement is redirected, and the others
// follow it.
type httpChannel struct {
	client        *http.Client
	program       program
	base          string // the repository's URL, after redirects
	wantsVersion2 bool
}

// newHTTPChannel takes over the carrier, and closes its idle connections in the end.
func newHTTPChannel(carrier *authorizer, of program, wantsVersion2 bool) *httpChannel {
	return &httpChannel{
		program: of,
		client:  &http.Client{Transport: carrier, CheckRedirect: checkRedirect},
		base:    strings.TrimSuffix(carrier.origin.Redacted(), "/"), wantsVersion2: wantsVersion2,
	}
}

// checkRedirect allows redirects of the first request of a session, but never from encrypted to
// plain.
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

// open implements [channel]. It keeps the URL to which the request was redirected, without the
// credential that only the carrier knows.
func (c *httpChannel) open(ctx context.Context) (reply, error) {
	answer, final, err := c.do(ctx, http.MethodGet, c.base+refsPath+"?service="+string(c.program), nil, c.program.mediaType("advertisement"), c.wantsVersion2)
	if err != nil {
		return reply{}, err
	}
	final.RawQuery = ""
	c.base = strings.TrimSuffix(final.String(), refsPath)
	return answer, nil
}

// send implements [channel]. A server that answered in the first version of the protocol is not
// asked for version 2 again.
func (c *httpChannel) send(ctx context.Context, request string, isVersion2 bool) (reply, error) {
	answer, _, err := c.do(ctx, http.MethodPost, c.base+"/"+string(c.program), strings.NewReader(request), c.program.mediaType("result"), isVersion2)
	return answer, err
}

func (c *httpChannel) isStateless() bool { return true }

// blame implements [channel]. HTTP has nothing beside the answer.
func (c *httpChannel) blame(err error) error { return err }

// Close drops the connections: the next session has another guard.
func (c *httpChannel) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// do sends one request, and returns the answer and where it came from. The answer has the status
// and the content type that the protocol wants.
func (c *httpChannel) do(ctx context.Context, method, address string, body io.Reader, accept string, isVersion2 bool) (reply, url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return reply{}, url.URL{}, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept", accept)
	if isVersion2 {
		req.Header.Set("Git-Protocol", version2Wanted)
	}
	if body != nil {
		req.Header.Set("Content-Type", c.program.mediaType("request"))
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return reply{}, url.URL{}, err
	}
	if err := checkResponse(resp, accept); err != nil {
		return reply{}, url.URL{}, errors.Join(err, resp.Body.Close())
	}
	return newReply(resp.Body, resp.Body, true), *resp.Request.URL, nil
}

// checkResponse returns an error that describes a response without the wanted content type.
func checkResponse(resp *http.Response, want string) error {
	if resp.StatusCode != http.StatusOK {
		failed := newStatusError(resp)
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") { // Git servers write it for people who use git
			said, _ := io.ReadAll(io.LimitReader(resp.Body, maxSaid)) // what has arrived is enough
			failed.said = string(said)
		}
		return failed
	}
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, want) {
		isDumb := dumbLine.MatchReader(bufio.NewReader(io.LimitReader(resp.Body, maxRest)))
		return &contentError{host: resp.Request.URL.Host, got: printable(got), dumb: isDumb}
	}
	return nil
}

// dumbLine begins the list of refs of a repository that is served as plain files.
var dumbLine = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?\trefs/`)
