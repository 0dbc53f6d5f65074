// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	userAgent = "leat"
	// callTimeout bounds one request, and exchangeTimeout all requests of an exchange together.
	callTimeout     = 15 * time.Second
	exchangeTimeout = 40 * time.Second
	// maxAnswer bounds an answer, and maxTokenFile the file with the pod's token. Tokens of all three
	// clouds have less than 16 KiB.
	maxAnswer    = 128 << 10
	maxTokenFile = 64 << 10
	// maxSaid bounds what is repeated of a cloud's words.
	maxSaid = 300
	// maxRetryAfter bounds what a cloud can ask for.
	maxRetryAfter = time.Hour
	// maxLifetime bounds what a cloud says of a login's end.
	maxLifetime = 12 * time.Hour
)

// identity is what a login is for. Repositories with an equal one share it.
type identity struct {
	cloud            upstream.Cloud
	principal, scope string
	registry         string // where logins are those of one registry: at Azure; else empty
}

// login is a login of a registry.
type login struct {
	upstream.DockerLogin
	ends time.Time
}

// services are the ways to the clouds' services. They are immutable.
type services struct {
	config Config
	// outside takes requests to services anywhere, node those to the node itself.
	outside, node http.RoundTripper
	now           func() time.Time
}

func newServices(config Config, now func() time.Time) *services {
	return &services{config: config, outside: newTransport(http.ProxyFromEnvironment), node: newTransport(nil), now: now}
}

// newTransport returns a transport for a few requests an hour, each over a connection of its own.
func newTransport(proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy: proxy, DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: callTimeout, ResponseHeaderTimeout: callTimeout, MaxResponseHeaderBytes: maxAnswer,
	}
}

// call is a request to a cloud, with what is said when it fails.
type call struct {
	// service is the service's name in messages.
	service string
	// advice says what a person does when the service refuses.
	advice  string
	carrier http.RoundTripper
	// hidden are the secrets that the service may repeat.
	hidden []string
}

// do sends a request and returns the answer's body and header. No redirect is followed: it would take
// the token elsewhere. The error is a *mirror.UpstreamError, or the context's cause.
func (c call) do(ctx context.Context, req *http.Request) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.carrier.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, nil, c.unreachable(req.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, c.unreachable(req.URL, err)
	case resp.StatusCode != http.StatusOK:
		return nil, nil, c.refused(req.URL, resp, body)
	case len(body) > maxAnswer:
		return nil, nil, c.unusable(req.URL)
	}
	return body, resp.Header, nil
}

// post sends a form.
func (c call) post(ctx context.Context, to string, form url.Values, accept string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", accept)
	body, _, err := c.do(ctx, req)
	return body, err
}

// postForm sends a form, and reads the answer, which is JSON.
func (c call) postForm(ctx context.Context, to string, form url.Values, answer any) error {
	body, err := c.post(ctx, to, form, "application/json")
	if err != nil {
		return err
	}
	return c.decode(to, body, answer)
}

// decode reads an answer. The parser's error may repeat a part of it, and with it of a token.
func (c call) decode(from string, body []byte, answer any) error {
	if json.Unmarshal(body, answer) != nil {
		at, _ := url.Parse(from)
		return c.unusable(at)
	}
	return nil
}

func (c call) unreachable(to *url.URL, err error) error {
	return &mirror.UpstreamError{
		Reason: reason.UpstreamUnreachable, Cause: fmt.Errorf("ask %s: %w", to.Host, err),
		Message: fmt.Sprintf("%s at %s does not answer, so there is no login for the registry; check gitcache's network, its firewalls and its "+
			"proxy. Leat retries automatically.", c.service, to.Host),
	}
}

func (c call) unusable(from *url.URL) error {
	host := ""
	if from != nil {
		host = from.Host
	}
	return &mirror.UpstreamError{
		Reason:  reason.UpstreamProtocol,
		Message: fmt.Sprintf("%s at %s answers without a token that can be used; check the setting of its URL.", c.service, host),
	}
}

// refused makes an error of an answer that is not success.
func (c call) refused(to *url.URL, resp *http.Response, body []byte) error {
	e := &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected, RetryAfter: retryAfter(resp.Header)}
	said := ""
	if words := c.words(body); words != "" {
		said = fmt.Sprintf(" It said: %q.", words)
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Reason = reason.UpstreamRateLimited
		e.Message = fmt.Sprintf("%s at %s asks to slow down; Leat obeys and retries automatically.%s", c.service, to.Host, said)
	case resp.StatusCode >= http.StatusInternalServerError:
		e.Reason = reason.UpstreamUnreachable
		e.Message = fmt.Sprintf("%s at %s has a problem of its own (HTTP status %d); Leat retries automatically.%s", c.service, to.Host, resp.StatusCode, said)
	default:
		e.Message = fmt.Sprintf("%s refused gitcache's identity (HTTP status %d); %s.%s", c.service, resp.StatusCode, c.advice, said)
	}
	return e
}

// retryAfter returns the seconds that an answer asks to wait.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// signedToken is the form of a token of JSON Web Signature, and opaque that of other long secrets of
// the three clouds. Identifiers of people, which have digits and hyphens alone, stay.
var (
	signedToken = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*){0,2}`)
	opaque      = regexp.MustCompile(`[A-Za-z0-9+/=_.-]{64,}`)
)

// words returns what an answer says for people, on one line and without secrets; "" for nothing.
// Each cloud has its own form: Google and Microsoft {error, error_description} or {error: {message}},
// registries {errors: [{message}]}, AWS {message} or XML.
func (c call) words(body []byte) string {
	var answer struct {
		Error            json.RawMessage `json:"error"`
		ErrorDescription string          `json:"error_description"`
		Message          string          `json:"message"`
		Capital          string          `json:"Message"`
		Errors           []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	var nested struct {
		Message string `json:"message"`
	}
	var markup struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	said := ""
	switch {
	case json.Unmarshal(body, &answer) == nil:
		_ = json.Unmarshal(answer.Error, &nested)
		said = answer.ErrorDescription + nested.Message + answer.Message + answer.Capital
		if said == "" && len(answer.Errors) > 0 {
			said = answer.Errors[0].Message
		}
		if code := ""; said == "" && json.Unmarshal(answer.Error, &code) == nil {
			said = code
		}
	case xml.Unmarshal(body, &markup) == nil && markup.Code+markup.Message != "":
		said = strings.TrimPrefix(markup.Code+": "+markup.Message, ": ")
	}
	for _, hidden := range c.hidden {
		if hidden != "" {
			said = strings.ReplaceAll(said, hidden, "***")
		}
	}
	said = opaque.ReplaceAllString(signedToken.ReplaceAllString(said, "***"), "***")
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[:maxSaid], "") + "…"
	}
	return said
}

// misconfigured is a failure of gitcache's own settings.
func misconfigured(format string, args ...any) error {
	return &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected, Message: fmt.Sprintf(format, args...)}
}

// readToken reads the pod's token, which Kubernetes replaces before its end.
func readToken(path, setting, advice string) (string, error) {
	if path == "" {
		return "", misconfigured("gitcache has no token to prove its identity with: %s is not set; %s.", setting, advice)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", misconfigured("gitcache cannot read the token that %s names; %s.", setting, advice)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	token := strings.TrimSpace(string(data))
	if err != nil || len(data) > maxTokenFile || !isToken(token) {
		return "", misconfigured("The file that %s names holds no token; %s.", setting, advice)
	}
	return token, nil
}

// isToken reports whether text can be a token: visible ASCII without white space. Anything else could
// end a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
