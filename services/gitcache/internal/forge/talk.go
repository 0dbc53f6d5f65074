// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

const (
	// maxAnswer bounds an answer. A page of 50 pull requests has about one MiB.
	maxAnswer = 8 << 20
	// maxRefusal bounds the reading of why a request is refused.
	maxRefusal = 4 << 10
	userAgent  = "leat"
)

// noRedirect has a redirect returned as the answer: a credential follows none, and a request that
// changes something neither.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// talk is a conversation with one API.
type talk struct {
	at     Place
	def    mirror.Definition
	token  secret.Text
	client *http.Client
}

// call sends a request to a path below the API, whose parts are escaped, and reads the answer into
// answer. The error is a *refusedError where the server has answered otherwise than with success.
func (t *talk) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("make request: %w", err)
		}
		sent = bytes.NewReader(data)
	}
	address := t.at.API.String() + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, sent)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	t.authorize(req)
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return newRefusedError(resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if len(data) > maxAnswer || json.Unmarshal(data, answer) != nil {
		return &refusedError{host: resp.Request.URL.Host, isStrange: true}
	}
	return nil
}

// authorize adds the credential. Gitea takes a password as well as a token by basic authentication;
// the others take tokens.
func (t *talk) authorize(req *http.Request) {
	if t.at.Forge == upstream.ForgeGitea && t.def.Credential.Method == upstream.MethodBasic {
		req.SetBasicAuth(t.def.Credential.Username, t.token.Reveal())
		return
	}
	req.Header.Set("Authorization", "Bearer "+t.token.Reveal())
}

// refusedError is an answer other than what the API prescribes.
type refusedError struct {
	host       string
	status     int
	said       string
	retryAfter time.Duration
	isStrange  bool // success, but with something else than the API's JSON
}

func newRefusedError(resp *http.Response) *refusedError {
	e := &refusedError{host: resp.Request.URL.Host, status: resp.StatusCode}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.retryAfter = min(time.Duration(max(seconds, 0))*time.Second, time.Hour)
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what has arrived is enough
	e.said = wordsOf(data)
	return e
}

// wordsOf returns what a refusal has for people. GitLab's may be a list or an object.
func wordsOf(data []byte) string {
	var refusal struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(data, &refusal) != nil {
		return ""
	}
	var said []byte
	for _, part := range []json.RawMessage{refusal.Message, refusal.Error, refusal.Errors} {
		var text string
		if json.Unmarshal(part, &text) == nil {
			part = []byte(text)
		}
		if len(part) > 0 {
			said = append(append(said, part...), ' ')
		}
	}
	return string(said)
}

// Error implements error.
func (e *refusedError) Error() string { return fmt.Sprintf("HTTP status %d from %s", e.status, e.host) }

// advice returns what to do about a refusal.
func (e *refusedError) advice(def mirror.Definition) string {
	message := ""
	switch {
	case e.isStrange:
		message = e.host + " does not answer as its API should; check push.forge and push.api_url of the repository."
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		message = fmt.Sprintf("%s refused the credential for its API (HTTP status %d); give it the right to open pull requests.", e.host, e.status)
	case e.status == http.StatusNotFound:
		message = e.host + " knows no such repository, or hides it from this credential; check push.forge, push.api_url and the credential's rights."
	case e.status >= 300 && e.status <= 399:
		message = e.host + " redirects to another address, which is not followed; correct the repository's URL or push.api_url."
	default:
		message = fmt.Sprintf("%s answers with HTTP status %d.", e.host, e.status)
	}
	return message + uploadpack.Quote(e.said, def)
}

// hasStatus reports whether an error is a refusal with one of the statuses.
func hasStatus(err error, statuses ...int) bool {
	refused, ok := errors.AsType[*refusedError](err)
	return ok && slices.Contains(statuses, refused.status)
}
