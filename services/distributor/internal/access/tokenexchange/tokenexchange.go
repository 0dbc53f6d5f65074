// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package tokenexchange is the endpoint at which workloads exchange the tokens of their CI system or
// cluster for access tokens: POST /oauth/token, as RFC 8693 describes it.
//
// The token is the caller's proof, so the endpoint needs no other one. Its requests and answers
// follow the RFC, with one parameter of its own, trust_rule. It bounds what it reads before it
// parses it, and never answers with a caller's input except the claims of a verified token.
package tokenexchange

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/services/distributor/internal/access/trust"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Path is where the endpoint is, and Pattern how it is mounted.
const (
	Path    = "/oauth/token"
	Pattern = "POST " + Path
)

// Words of RFC 8693.
const (
	grantType       = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
	typeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
)

const (
	// maxBody bounds a request: a token, which may be percent-encoded, and short parameters.
	maxBody = 3*trust.MaxToken + 8<<10
	// readTimeout bounds the reading of a request, and admitTimeout the decision.
	readTimeout  = 10 * time.Second
	admitTimeout = 15 * time.Second
	// retryAfter is when a caller tries again whom the hub cannot answer now.
	retryAfter = 5 * time.Second
)

// Desk lets workloads in; trust.Desk implements it.
type Desk interface {
	// Admit returns what a token lets its bearer in as. Errors are a *trust.RefusedError, match
	// trust.ErrUnavailable, or are the context's.
	Admit(ctx context.Context, token secret.Text, rule string) (trust.Pass, error)
}

// Journal records that a workload was let in; journal.Journal implements it.
type Journal interface {
	// Exchange records that a token, known by its hash, was exchanged for an access token.
	Exchange(ctx context.Context, origin catalog.Origin, audience, token string)
}

// Params are a Handler's collaborators, all required.
type Params struct {
	Desk    Desk
	Issuer  *identity.Issuer
	Journal Journal
	Logger  *slog.Logger
	Meter   metric.Meter
}

// Handler serves the endpoint. It is safe for concurrent use.
type Handler struct {
	p       Params
	counter metric.Int64Counter
}

// New returns a Handler.
func New(p Params) (*Handler, error) {
	set := instrument.New(p.Meter)
	counter := set.Int64Counter("leat.distributor.token.exchanges", "{exchange}",
		"Tokens of workloads that were presented for an access token, by outcome: granted, refused, malformed, unavailable.")
	for _, outcome := range []string{"granted", "refused", "malformed", "unavailable"} {
		instrument.Begin(counter, attribute.String("outcome", outcome))
	}
	return &Handler{p: p, counter: counter}, set.Err()
}

// problem is an error of RFC 6749 and 8693.
type problem struct {
	status int
	// outcome is a value of the metric.
	outcome string
	Code    string `json:"error"`
	Text    string `json:"error_description"`
}

func malformed(code, text string) *problem {
	return &problem{status: http.StatusBadRequest, outcome: "malformed", Code: code, Text: text}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Pragma", "no-cache")
	header.Set("X-Content-Type-Options", "nosniff")
	// A caller that trickles its request does not hold the connection for long. A recorder of tests has
	// no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	answer, p := h.exchange(r, w)
	outcome := "granted"
	if p != nil {
		outcome = p.outcome
	}
	h.counter.Add(r.Context(), 1, metric.WithAttributes(attribute.String("outcome", outcome)))
	header.Set("Content-Type", "application/json")
	if p == nil {
		_ = json.NewEncoder(w).Encode(answer) // the caller has gone when this fails
		return
	}
	if p.status == http.StatusServiceUnavailable {
		header.Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	p.Text = described(p.Text)
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p)
}

// described returns a description with only the characters that RFC 6749 allows there.
func described(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r == '…':
			return '.'
		case r < ' ' || r > '~' || r == '\\':
			return '?'
		}
		return r
	}, text)
}

// granted is the answer to an exchange.
type granted struct {
	AccessToken string `json:"access_token"`
	IssuedType  string `json:"issued_token_type"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
}

func (h *Handler) exchange(r *http.Request, w http.ResponseWriter) (*granted, *problem) {
	form, p := read(r, w)
	if p != nil {
		return nil, p
	}
	audience, p := check(form)
	if p != nil {
		return nil, p
	}
	ctx, cancel := context.WithTimeout(r.Context(), admitTimeout)
	defer cancel()
	token := secret.Text(form.Get("subject_token"))
	pass, err := h.p.Desk.Admit(ctx, token, form.Get("trust_rule"))
	if err != nil {
		return nil, h.refusal(ctx, err)
	}
	identity.Verified(ctx)
	id := identity.Identity{Kind: identity.KindUser, Name: pass.Name, Credential: pass.Rule.Credential(), Claims: pass.Claims}
	access, expires, err := h.p.Issuer.Issue(id, audience, pass.Life)
	if err != nil {
		return nil, h.refusal(ctx, err)
	}
	h.p.Journal.Exchange(ctx, originOf(r, id), audience, hashOf(token))
	return &granted{
		AccessToken: access, IssuedType: typeAccessToken, TokenType: "Bearer", ExpiresIn: int64(time.Until(expires).Round(time.Second).Seconds()),
	}, nil
}

// refusal returns the answer for an error. RFC 8693 has one code for every token that is not accepted.
func (h *Handler) refusal(ctx context.Context, err error) *problem {
	if refused, ok := errors.AsType[*trust.RefusedError](err); ok {
		return &problem{status: http.StatusBadRequest, outcome: "refused", Code: "invalid_request", Text: refused.Message}
	}
	if errors.Is(err, trust.ErrUnavailable) || ctx.Err() != nil {
		return &problem{
			status: http.StatusServiceUnavailable, outcome: "unavailable", Code: "temporarily_unavailable",
			Text: "the keys of the token's issuer cannot be read now; try again in a moment",
		}
	}
	h.p.Logger.ErrorContext(ctx, "token exchange failed", slog.Any("error", err))
	return &problem{status: http.StatusInternalServerError, outcome: "unavailable", Code: "server_error", Text: "the hub made a mistake; its cause is in the hub's log"}
}

// read reads the form of a request.
func read(r *http.Request, w http.ResponseWriter) (url.Values, *problem) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, malformed("invalid_request", "send the parameters as application/x-www-form-urlencoded")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			p := malformed("invalid_request", fmt.Sprintf("the request has more than %d bytes", maxBody))
			p.status = http.StatusRequestEntityTooLarge
			return nil, p
		}
		return nil, malformed("invalid_request", "the parameters cannot be read")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && name != "audience" && name != "resource" {
			return nil, malformed("invalid_request", "a parameter was sent twice")
		}
	}
	return r.PostForm, nil
}

// check returns the audience of the access token that a request asks for.
func check(form url.Values) (audience string, _ *problem) {
	switch {
	case form.Get("grant_type") != grantType:
		return "", malformed("unsupported_grant_type", "grant_type must be "+grantType)
	case form.Get("subject_token") == "":
		return "", malformed("invalid_request", "subject_token is required: the token of the workload")
	case form.Get("subject_token_type") != typeJWT && form.Get("subject_token_type") != typeIDToken:
		return "", malformed("invalid_request", "subject_token_type must be "+typeJWT+" or "+typeIDToken)
	case form.Get("requested_token_type") != "" && form.Get("requested_token_type") != typeAccessToken:
		return "", malformed("invalid_request", "requested_token_type must be "+typeAccessToken+", or left out")
	case form.Get("actor_token") != "" || form.Get("actor_token_type") != "":
		return "", malformed("invalid_request", "the hub takes no actor_token: leave it out")
	case form.Get("scope") != "":
		return "", malformed("invalid_scope", "bindings of the hub say what the workload may do: leave scope out")
	case form.Get("resource") != "" || len(form["audience"]) > 1:
		return "", malformed("invalid_target", "an access token is for one service: name it by audience")
	}
	audience = cmp.Or(form.Get("audience"), identity.ServiceDistributor)
	if audience != identity.ServiceDistributor && audience != identity.ServiceTunnel {
		return "", malformed("invalid_target", "audience must be distributor, which is the default, or tunnel")
	}
	return audience, nil
}

// hashOf returns what a token is known by where it must not be found.
func hashOf(token secret.Text) string {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return hex.EncodeToString(sum[:])
}

// originOf returns where the exchange comes from.
func originOf(r *http.Request, id identity.Identity) catalog.Origin {
	origin := catalog.Origin{
		Subject: id.Subject(), Credential: id.Credential, Claims: id.Claims, SourceAddress: r.RemoteAddr, UserAgent: r.Header.Get("User-Agent"),
		Procedure: Path, RequestID: audit.NewID(),
	}
	origin.TraceID = origin.RequestID
	if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
		origin.TraceID = span.TraceID().String()
	}
	return origin
}
