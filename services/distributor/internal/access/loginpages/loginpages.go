// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package loginpages are the pages at which people sign in: /login, /login/callback and /device.
//
// The pages are made here, without a script, and show nothing that a caller sent but escaped codes.
// A request of a stranger stores nothing: what ties the two halves of a sign-in together is sealed
// in a cookie of ten minutes. The hub sends a browser to three kinds of places: the provider, a
// loopback address with a code, and paths of its own below /ui/.
package loginpages

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Paths of the pages, below the hub's public URL.
const (
	LoginPath    = "/login"
	CallbackPath = "/login/callback"
	DevicePath   = "/device"
)

const (
	// transactionLife is how long a person may take at the provider.
	transactionLife = 10 * time.Minute
	// signInTimeout bounds the calls of one callback.
	signInTimeout = 30 * time.Second
	// maxFormBytes bounds the form of /device, maxQueryBytes the query of a request.
	maxFormBytes  = 4 << 10
	maxQueryBytes = 8 << 10
)

// Provider speaks to identity providers; oidclogin implements it.
type Provider interface {
	// AuthURL returns the address at which a person signs in.
	AuthURL(ctx context.Context, provider *catalog.IdentityProvider, t session.Transaction) (string, error)
	// CheckIssuer returns an error unless an answer with this issuer may be the provider's. Empty:
	// the answer names none.
	CheckIssuer(ctx context.Context, provider *catalog.IdentityProvider, issuer string) error
	// Redeem exchanges the code of an answer for the person's claims.
	Redeem(ctx context.Context, provider *catalog.IdentityProvider, t session.Transaction, code string) (session.Claims, error)
}

// Desk begins sessions; session.Desk implements it.
type Desk interface {
	Begin(ctx context.Context, s session.SignIn) (session.Begun, error)
}

// View knows the identity providers; fleet.View implements it.
type View interface {
	Provider(name string) (*catalog.IdentityProvider, bool)
	Providers() []*catalog.IdentityProvider
	Look(ctx context.Context)
}

// Params are the collaborators of the pages, all required.
type Params struct {
	View     View
	Provider Provider
	Desk     Desk
	Journal  Journal
	Metrics  *session.Metrics
	// Secret seals cookies; the same at all replicas.
	Secret []byte
	Logger *slog.Logger
}

// Pages serves the pages. It is safe for concurrent use.
type Pages struct {
	p      Params
	sealer *seal.Sealer
}

// New returns the pages.
func New(p Params) (*Pages, error) {
	sealer, err := seal.NewSealer(p.Secret, "sign-in transaction")
	if err != nil {
		return nil, err
	}
	return &Pages{p: p, sealer: sealer}, nil
}

// Before returns a handler that serves the pages, and all other requests by next.
func (s *Pages) Before(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+LoginPath, bounded(s.login))
	mux.Handle("GET "+CallbackPath, bounded(s.callback))
	mux.Handle("GET "+DevicePath, bounded(s.device))
	mux.Handle("POST "+DevicePath, bounded(s.typed))
	return &before{mux: mux, next: next}
}

// before is a type of its own because next may be a stream of days: http.HandlerFunc needs a second frame of its stack.
type before struct {
	mux  *http.ServeMux
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *before) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case LoginPath, CallbackPath, DevicePath:
		h.mux.ServeHTTP(w, r)
	default:
		h.next.ServeHTTP(w, r)
	}
}

// bounded refuses requests that no page of the hub makes.
func bounded(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guardHeaders(w.Header())
		// Providers send browsers here from other sites, so the rules for the hub's calls do not
		// hold. A page of another site can do no more than lead here, visibly.
		if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" {
			fail(w, http.StatusForbidden, "This page is not part of another one.", "Open it in a window of its own.")
			return
		}
		if len(r.URL.RawQuery) > maxQueryBytes {
			fail(w, http.StatusRequestURITooLong, "The address is too long.", "Begin again with leat login.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		next(w, r)
	})
}

// transaction is the sealed content of the cookie of a sign-in.
type transaction struct {
	Provider    string                `json:"p"`
	ProviderUID string                `json:"u"`
	State       string                `json:"s"`
	Nonce       string                `json:"n"`
	Verifier    string                `json:"v"`
	Client      catalog.SessionClient `json:"c"`
	Ends        time.Time             `json:"e"`

	// Of a command line: where its code goes, what goes with it, and its challenge.
	Redirect    string `json:"r,omitempty"`
	ClientState string `json:"cs,omitempty"`
	Challenge   []byte `json:"ch,omitempty"`
	// UserCode is the code that was typed for a device.
	UserCode string `json:"uc,omitempty"`
	// Return is where a browser goes afterwards, below /ui/; empty: nowhere.
	Return string `json:"rt,omitempty"`
}

func (t transaction) secrets() session.Transaction {
	return session.Transaction{State: t.State, Nonce: t.Nonce, Verifier: secret.Text(t.Verifier)}
}

// login begins a sign-in. With several providers and none chosen, it asks.
func (s *Pages) login(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	t, problem := s.wanted(r, query)
	if problem != "" {
		fail(w, http.StatusBadRequest, problem, "Begin again with leat login.")
		return
	}
	provider, ok := s.choose(query.Get("provider"))
	if !ok {
		s.askWhich(w, query)
		return
	}
	t.Provider, t.ProviderUID = provider.Name, provider.UID
	t.State, t.Nonce, t.Verifier = rand.Text(), rand.Text(), rand.Text()+rand.Text()
	t.Ends = time.Now().Add(transactionLife)
	to, err := s.p.Provider.AuthURL(r.Context(), provider, t.secrets())
	if err != nil {
		s.attemptOf(r, provider).end(r.Context(), session.OutcomeProviderAway, err)
		fail(w, http.StatusBadGateway, provider.ShownTitle()+" does not answer the hub.",
			"Try again in a moment. People who are signed in stay so. If this lasts, an administrator finds the reason in the hub's log.")
		return
	}
	if err := s.setTransaction(w, t); err != nil {
		s.broken(w, r, err)
		return
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// clientState is the text that a command line may have echoed.
var clientState = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// wanted reads which program is to hold the session. problem is a text about a defect, for people.
func (s *Pages) wanted(r *http.Request, query url.Values) (t transaction, problem string) {
	for _, values := range query {
		if len(values) > 1 {
			return t, "The address says one thing twice."
		}
	}
	switch {
	case query.Has("redirect_uri"):
		challenge, ok := session.ParseChallenge(query.Get("code_challenge"))
		if !ok || query.Get("code_challenge_method") != "S256" {
			return t, "The command line sent no challenge (S256)."
		}
		redirect, ok := loopback(query.Get("redirect_uri"))
		if !ok || !clientState.MatchString(query.Get("state")) {
			return t, "The hub sends codes only to a loopback address of your own machine, such as http://127.0.0.1:49152/callback."
		}
		t.Client, t.Challenge, t.Redirect, t.ClientState = catalog.ClientCLI, challenge, redirect, query.Get("state")
	case query.Has("ticket"):
		code, ok := s.openTicket(r, query.Get("ticket"))
		if !ok {
			return t, "The code of your machine was not typed in this browser, or too long ago."
		}
		t.Client, t.UserCode = catalog.ClientDevice, code
	default:
		back, ok := ownPath(query.Get("return"))
		if !ok {
			return t, "The hub returns only to its own pages, below /ui/."
		}
		t.Client, t.Return = catalog.ClientBrowser, back
	}
	return t, ""
}

// loopback returns a redirect URI of a command line on the person's own machine (RFC 8252). Names
// such as localhost may lead elsewhere, so addresses alone are taken.
func loopback(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Path != "/callback" || u.Port() == "" || u.Hostname() != "127.0.0.1" && u.Hostname() != "::1" {
		return "", false
	}
	clean := (&url.URL{Scheme: "http", Host: u.Host, Path: "/callback"}).String()
	return clean, clean == text
}

// ownPath returns a path of the hub's own pages. Empty: none was named.
func ownPath(text string) (string, bool) {
	if text == "" {
		return "", true
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(u.Path, "/ui/") ||
		strings.ContainsAny(text, "\\") || strings.Contains(u.Path, "..") || strings.Contains(u.Path, "//") {
		return "", false
	}
	return u.String(), true
}

// choose returns the provider of that name, or the only one.
func (s *Pages) choose(name string) (*catalog.IdentityProvider, bool) {
	open := s.p.View.Providers()
	if name == "" {
		if len(open) == 1 {
			return open[0], true
		}
		return nil, false
	}
	provider, ok := s.p.View.Provider(name)
	return provider, ok && !provider.Spec.Suspended
}

// askWhich shows a link for each provider.
func (s *Pages) askWhich(w http.ResponseWriter, query url.Values) {
	open := s.p.View.Providers()
	if len(open) == 0 {
		fail(w, http.StatusNotFound, "Nobody signs in here: this hub has no identity provider.", "Use an API token: leat login --token.")
		return
	}
	show(w, http.StatusOK, page{Title: "Sign in to Leat", Links: s.links(open, query)})
}

func (*Pages) links(open []*catalog.IdentityProvider, query url.Values) []link {
	var links []link
	for _, provider := range open {
		query.Set("provider", provider.Name)
		links = append(links, link{URL: LoginPath + "?" + query.Encode(), Text: "Sign in with " + provider.ShownTitle()})
	}
	return links
}

// callback is where the provider sends the person back to.
func (s *Pages) callback(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), signInTimeout)
	defer cancel()
	t, err := s.transaction(r)
	clearTransaction(w)
	a, query := s.attemptOf(r, nil), r.URL.Query()
	if err != nil || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(t.State)) != 1 {
		a.end(ctx, session.OutcomeForeign, nil)
		fail(w, http.StatusBadRequest, "This sign-in did not begin in this browser, took too long, or was finished already.", "Begin again with leat login.")
		return
	}
	provider, ok := s.p.View.Provider(t.Provider)
	if ok && provider.UID == t.ProviderUID {
		a.provider = provider
	}
	if a.provider == nil || provider.Spec.Suspended {
		a.end(ctx, session.OutcomeProviderGone, nil)
		fail(w, http.StatusForbidden, "The identity provider was removed in the meantime.", "Begin again with leat login.")
		return
	}
	if err := s.p.Provider.CheckIssuer(ctx, provider, query.Get("iss")); err != nil {
		a.refuse(ctx, w, err)
		return
	}
	if code := query.Get("error"); code != "" || query.Get("code") == "" {
		a.end(ctx, session.OutcomeProviderRefused, nil)
		s.providerRefused(w, provider, code)
		return
	}
	claims, err := s.p.Provider.Redeem(ctx, provider, t.secrets(), query.Get("code"))
	if err != nil {
		a.refuse(ctx, w, err)
		return
	}
	a.confirmed(claims)
	begun, err := s.p.Desk.Begin(catalog.WithOrigin(ctx, a.origin), session.SignIn{
		Provider: provider, Claims: claims, Client: t.Client, Challenge: t.Challenge, UserCode: t.UserCode,
	})
	if err != nil {
		a.refuse(ctx, w, err)
		return
	}
	a.end(ctx, session.OutcomeSignedIn, nil)
	s.p.View.Look(ctx)
	s.p.Logger.InfoContext(ctx, "person signed in", slog.String("person", begun.Session.Person), slog.String("provider", provider.Name),
		slog.String("session", begun.Session.ID), slog.String("client", string(t.Client)))
	s.finish(w, t, begun)
}

// finish hands the session over.
func (s *Pages) finish(w http.ResponseWriter, t transaction, begun session.Begun) {
	switch t.Client {
	case catalog.ClientCLI:
		to := t.Redirect + "?" + url.Values{"code": {begun.Code.Reveal()}, "state": {t.ClientState}}.Encode()
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
	case catalog.ClientDevice:
		show(w, http.StatusOK, page{
			Title: "You are signed in as " + begun.Session.Person,
			Text:  "The machine that shows " + t.UserCode + " goes on within a few seconds. You can close this page.",
		})
	case catalog.ClientBrowser:
		setSession(w, begun)
		if t.Return != "" {
			w.Header().Set("Location", t.Return)
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		show(w, http.StatusOK, page{Title: "You are signed in as " + begun.Session.Person, Text: "You can close this page."})
	}
}

// errorCode is an error of RFC 6749 as it may be shown.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

func (*Pages) providerRefused(w http.ResponseWriter, provider *catalog.IdentityProvider, code string) {
	if !errorCode.MatchString(code) {
		code = "no code"
	}
	fail(w, http.StatusForbidden, provider.ShownTitle()+" did not sign you in: "+code+".", "Begin again with leat login, or ask its administrator.")
}

// refuse ends the attempt, and shows why the sign-in failed. Problems that a person cannot correct
// are in the log alone.
func (a *attempt) refuse(ctx context.Context, w http.ResponseWriter, err error) {
	outcome := session.OutcomeOf(err)
	a.end(ctx, outcome, err)
	switch outcome {
	case session.OutcomeNotLetIn:
		fail(w, http.StatusForbidden, "You are not let in.", sentence(err.Error()))
	case session.OutcomeNameTaken:
		fail(w, http.StatusForbidden, "A user of the hub already has your name.",
			"An administrator deletes that user, or lets the provider name people by another claim.")
	case session.OutcomeCodeUsed:
		fail(w, http.StatusConflict, "The code of your machine was used already.", "Begin again with leat login --device.")
	case session.OutcomeHubFailed:
		fail(w, http.StatusServiceUnavailable, "The hub's database or audit log does not answer.", "Try again in a moment.")
	default:
		fail(w, http.StatusBadGateway, a.provider.ShownTitle()+" did not confirm who you are.",
			"Begin again with leat login. If this lasts, an administrator finds the reason in the hub's log.")
	}
}

func (s *Pages) broken(w http.ResponseWriter, r *http.Request, err error) {
	s.p.Logger.ErrorContext(r.Context(), "sign-in page failed", slog.Any("error", err))
	fail(w, http.StatusInternalServerError, "The hub made a mistake.", "Its cause is in the hub's log.")
}

// sentence returns a text with a capital letter and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
