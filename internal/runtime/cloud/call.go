// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"cmp"
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
)

const (
	userAgent = "leat"
	// callTimeout bounds one request.
	callTimeout = 15 * time.Second
	// maxAnswer bounds an answer, and maxTokenFile the file with the pod's token. Tokens of all three
	// clouds have less than 16 KiB.
	maxAnswer    = 128 << 10
	maxTokenFile = 64 << 10
	// maxSaid bounds the quotation of a cloud's message.
	maxSaid = 300
	// maxRetryAfter bounds what a cloud can ask for.
	maxRetryAfter = time.Hour
	// maxLifetime bounds the lifetime of a token that a cloud announces.
	maxLifetime = 12 * time.Hour
)

// Kind is the failure of a call.
type Kind int

// The kinds of failures.
const (
	// Refused means that the service does not do that for this identity.
	Refused Kind = iota + 1
	// Unreachable means that the service does not answer, or has a problem of its own.
	Unreachable
	// RateLimited means that the service asks to slow down.
	RateLimited
	// Unusable means that the answer is not one of that service.
	Unusable
	// Misconfigured means that a setting is missing or wrong, and nothing was sent.
	Misconfigured
)

// Error is a failure of a call, or of what comes before one.
type Error struct {
	Kind Kind
	// Message is a sentence for a person that advises, without secrets.
	Message string
	// RetryAfter is how long the service asks to be left alone. Zero: it does not.
	RetryAfter time.Duration
	// Status is the answer's HTTP status. Zero: there was none.
	Status int
	// Code is the service's name of the failure, such as AccessDeniedException: at most 40 letters and
	// underscores. Empty: the answer has none.
	Code string
	// Setting is the environment variable that is missing. Empty: none is.
	Setting string
	// Cause is for the log; it holds no secrets either. May be nil.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %v", e.Message, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// newTransport returns a transport for a few requests an hour, each over a connection of its own.
func newTransport(proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy: proxy, DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: callTimeout, ResponseHeaderTimeout: callTimeout, MaxResponseHeaderBytes: maxAnswer,
	}
}

// Call is a request to a service of a cloud, with the texts for its failure.
type Call struct {
	// Service is the service's name in messages, and Caller who calls it, such as "gitcache".
	Service, Caller string
	// Advice is what a person does when the service refuses.
	Advice string
	// Carrier takes the request.
	Carrier http.RoundTripper
	// Hidden are the secrets that the service may repeat.
	Hidden []string
	// MaxAnswer bounds the body of an answer. Zero: 128 KiB.
	MaxAnswer int64
}

// Do sends a request and returns the body and the header of an answer with status 200. No redirect is
// followed: it would take the token elsewhere. The error is an [*Error].
func (c Call) Do(ctx context.Context, req *http.Request) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.Carrier.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, nil, c.unreachable(req.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	most := cmp.Or(c.MaxAnswer, maxAnswer)
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, nil, c.unreachable(req.URL, err)
	case resp.StatusCode != http.StatusOK:
		return nil, nil, c.refused(req.URL, resp, body)
	case int64(len(body)) > most:
		return nil, nil, c.Unusable(req.URL)
	}
	return body, resp.Header, nil
}

// post sends a form and returns the answer.
func (c Call) post(ctx context.Context, to string, form url.Values, accept string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", accept)
	body, _, err := c.Do(ctx, req)
	return body, err
}

// PostForm sends a form, and reads the answer, which is JSON. The error is an [*Error].
func (c Call) PostForm(ctx context.Context, to string, form url.Values, answer any) error {
	body, err := c.post(ctx, to, form, "application/json")
	if err != nil {
		return err
	}
	at, _ := url.Parse(to)
	return c.Decode(at, body, answer)
}

// Decode reads an answer. The error is an [*Error]; the parser's may repeat a part of the answer, and
// with it of a token.
func (c Call) Decode(from *url.URL, body []byte, answer any) error {
	if json.Unmarshal(body, answer) != nil {
		return c.Unusable(from)
	}
	return nil
}

func (c Call) unreachable(to *url.URL, err error) error {
	return &Error{
		Kind: Unreachable, Cause: fmt.Errorf("ask %s: %w", to.Host, err),
		Message: fmt.Sprintf("%s at %s does not answer; check %s's network, its firewalls and its proxy. Leat retries automatically.",
			c.Service, to.Host, c.Caller),
	}
}

// Unusable returns the error for an answer that lacks what it should hold.
func (c Call) Unusable(from *url.URL) error {
	host := ""
	if from != nil {
		host = from.Host
	}
	return &Error{
		Kind:    Unusable,
		Message: fmt.Sprintf("%s at %s gives an answer that cannot be used; check the setting of its URL.", c.Service, host),
	}
}

// refused makes an error of an answer that is not success.
func (c Call) refused(to *url.URL, resp *http.Response, body []byte) error {
	e := &Error{Kind: Refused, Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)}
	code, words := c.said(body)
	e.Code = code
	said := ""
	if words != "" {
		said = fmt.Sprintf(" It said: %q.", words)
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Kind = RateLimited
		e.Message = fmt.Sprintf("%s at %s asks to slow down; Leat obeys and retries automatically.%s", c.Service, to.Host, said)
	case resp.StatusCode >= http.StatusInternalServerError:
		e.Kind = Unreachable
		e.Message = fmt.Sprintf("%s at %s has a problem of its own (HTTP status %d); Leat retries automatically.%s", c.Service, to.Host, resp.StatusCode, said)
	default:
		e.Message = fmt.Sprintf("%s refused %s's identity (HTTP status %d); %s.%s", c.Service, c.Caller, resp.StatusCode, c.Advice, said)
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

// signedToken is the form of a token of JSON Web Signature, and opaque the form of other long
// secrets of the three clouds. Identifiers of people, which have digits and hyphens alone, stay.
var (
	signedToken = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*){0,2}`)
	opaque      = regexp.MustCompile(`[A-Za-z0-9+/=_.-]{64,}`)
)

// named is the form of [Error.Code].
var named = regexp.MustCompile(`^[A-Za-z_]{1,40}$`)

// said returns an answer's code of the failure, and its message for people, on one line and without
// secrets; "" for nothing. Each cloud has its own form: Google and Microsoft {error,
// error_description} or {error: {status, code, message, innererror}}, registries {errors:
// [{message}]}, AWS {__type, message} or XML.
func (c Call) said(body []byte) (code, words string) {
	var answer struct {
		Type             string          `json:"__type"`
		Error            json.RawMessage `json:"error"`
		ErrorDescription string          `json:"error_description"`
		Message          string          `json:"message"`
		Capital          string          `json:"Message"`
		Errors           []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	var nested struct {
		Status  string          `json:"status"`
		Code    json.RawMessage `json:"code"` // a number at Google
		Message string          `json:"message"`
		Inner   struct {
			Code string `json:"code"`
		} `json:"innererror"`
	}
	var markup struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	switch {
	case json.Unmarshal(body, &answer) == nil:
		_ = json.Unmarshal(answer.Error, &nested)
		words = answer.ErrorDescription + nested.Message + answer.Message + answer.Capital
		if words == "" && len(answer.Errors) > 0 {
			words = answer.Errors[0].Message
		}
		_ = json.Unmarshal(nested.Code, &code)
		if code = cmp.Or(nested.Inner.Code, nested.Status, code); answer.Type != "" {
			code = answer.Type[strings.LastIndexByte(answer.Type, '#')+1:]
		}
		if name := ""; json.Unmarshal(answer.Error, &name) == nil && name != "" {
			code = name
			if words == "" {
				words = name
			}
		}
	case xml.Unmarshal(body, &markup) == nil && markup.Code+markup.Message != "":
		code, words = markup.Code, strings.TrimPrefix(markup.Code+": "+markup.Message, ": ")
	}
	if !named.MatchString(code) {
		code = ""
	}
	return code, c.clean(words)
}

// clean returns words of a cloud on one line, without secrets and not too many.
func (c Call) clean(words string) string {
	for _, hidden := range c.Hidden {
		if hidden != "" {
			words = strings.ReplaceAll(words, hidden, "***")
		}
	}
	words = opaque.ReplaceAllString(signedToken.ReplaceAllString(words, "***"), "***")
	words = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(words, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(words) > maxSaid {
		words = strings.ToValidUTF8(words[:maxSaid], "") + "…"
	}
	return words
}

// misconfigured is a failure of the service's own settings.
func misconfigured(format string, args ...any) error {
	return &Error{Kind: Misconfigured, Message: fmt.Sprintf(format, args...)}
}

// missing is a failure because an environment variable is not set.
func missing(setting, format string, args ...any) error {
	return &Error{Kind: Misconfigured, Setting: setting, Message: fmt.Sprintf(format, args...)}
}

// readToken reads the pod's token, which Kubernetes replaces before its end.
func (i *Identity) readToken(path, setting, advice string) (string, error) {
	if path == "" {
		return "", missing(setting, "%s has no token to prove its identity with: %s is not set; %s.", i.params.Caller, setting, advice)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", misconfigured("%s cannot read the token that %s names; %s.", i.params.Caller, setting, advice)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	token := strings.TrimSpace(string(data))
	if err != nil || len(data) > maxTokenFile || !IsToken(token) {
		return "", misconfigured("The file that %s names holds no token; %s.", setting, advice)
	}
	return token, nil
}

// IsToken reports whether text can be a token: visible ASCII without white space. Anything else could
// end a header.
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
