// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// TokenPrefix begins the tokens of sessions, so that people and scanners recognise them.
	TokenPrefix = "leatses_"

	// BrowserTokenLife is how long access tokens of browsers are valid. A page holds them in
	// memory.
	BrowserTokenLife = 5 * time.Minute
	// browserIdle is how long a browser's session lives without use.
	browserIdle = time.Hour
	// withoutRefresh is the longest life of a session whose claims cannot be read again.
	withoutRefresh = time.Hour
	// renewalHeld is how long one caller holds the renewal of a session, and when the provider is
	// asked again after it did not answer.
	renewalHeld = 30 * time.Second
	// minTokenLife is the shortest life of an access token.
	minTokenLife = time.Minute

	// Strangers' questions that reach the store: codes of devices, and ids that this replica does
	// not know.
	strangersPerSecond = 50
	strangersAtOnce    = 500
	// devicesPerSecond bounds how many codes of devices are made, so that an attacker cannot make them
	// until one belongs to another person.
	devicesPerSecond = 20
	devicesAtOnce    = 200
)

// Params are a Desk's collaborators, all required.
type Params struct {
	Store    Store
	View     View
	Provider Provider
	Codes    *Codes
	Metrics  *Metrics
	Logger   *slog.Logger
}

// Desk begins, continues and ends sessions. It is safe for concurrent use.
type Desk struct {
	p         Params
	strangers *rate.Limiter
	devices   *rate.Limiter
}

// NewDesk returns a Desk.
func NewDesk(p Params) *Desk {
	return &Desk{
		p: p, strangers: rate.NewLimiter(strangersPerSecond, strangersAtOnce), devices: rate.NewLimiter(devicesPerSecond, devicesAtOnce),
	}
}

// SignIn is a person whom a provider has confirmed, and the program that is to hold the session.
type SignIn struct {
	Provider *catalog.IdentityProvider
	Claims   Claims
	Client   catalog.SessionClient
	// Challenge is the command line's; nil for others.
	Challenge []byte
	// UserCode is the code that the person typed for a device.
	UserCode string
}

// Begun is a session that began.
type Begun struct {
	Session catalog.Session
	// Code is for a command line to redeem; Token is for a browser to keep. Empty for others.
	Code, Token secret.Text
}

// Begin stores a session for a person. Errors: *ClaimsError, ErrNameTaken, ErrProof for the code of
// a device that another person has used, and the store's.
func (d *Desk) Begin(ctx context.Context, s SignIn) (Begun, error) {
	person, err := PersonOf(s.Provider, s.Claims)
	if err != nil {
		return Begun{}, err
	}
	if _, taken := d.p.View.User(person.Name); taken {
		return Begun{}, ErrNameTaken
	}
	at := catalog.Now()
	made := New{
		Session: catalog.Session{
			ID: rand.Text(), Person: person.Name, Groups: person.Groups, Provider: s.Provider.Name, ProviderUID: s.Provider.UID,
			Subject: s.Claims.Subject, Client: s.Client, CreatedAt: at, EndsAt: at.Add(lifeOf(s.Provider.Spec, s.Claims.Refresh)), Pending: true,
		},
		Challenge: s.Challenge, Refresh: s.Claims.Refresh,
	}
	if s.Claims.Refresh != "" {
		made.RenewAt = at.Add(s.Provider.Spec.RenewEvery())
	}
	var begun Begun
	switch s.Client {
	case catalog.ClientCLI:
		made.ProofEndsAt = at.Add(CodeLife)
		code, err := d.p.Codes.make(placeCLI, made.ID, made.ProofEndsAt)
		if err != nil {
			return Begun{}, err
		}
		begun.Code, made.Proof = secret.Text(code), hash(code)
	case catalog.ClientDevice:
		made.ProofEndsAt = at.Add(DeviceLife)
		made.Proof = userProof(s.UserCode)
	case catalog.ClientBrowser:
		token := TokenPrefix + rand.Text() + rand.Text()
		begun.Token, made.Proof, made.Pending, made.ProofEndsAt = secret.Text(token), hash(token), false, made.EndsAt
	}
	begun.Session = made.Session
	return begun, d.p.Store.CreateSession(ctx, made)
}

// lifeOf returns how long a session lives in all.
func lifeOf(spec catalog.IdentityProviderSpec, refresh secret.Text) time.Duration {
	if refresh == "" {
		return min(spec.SessionLife(), withoutRefresh)
	}
	return spec.SessionLife()
}

// Device are the codes of a machine without a browser.
type Device struct {
	Code     secret.Text
	UserCode string
	EndsAt   time.Time
}

// StartDevice makes the codes of a machine without a browser. Nothing is stored. Error: ErrBusy.
func (d *Desk) StartDevice() (Device, error) {
	if !d.devices.Allow() {
		return Device{}, ErrBusy
	}
	ends := catalog.Now().Add(DeviceLife)
	code, err := d.p.Codes.make(placeDevice, "", ends)
	return Device{Code: secret.Text(code), UserCode: UserCodeOf(code), EndsAt: ends}, err
}

// RedeemCode exchanges a command line's code for its session, whose first token has the hash first.
// Errors: ErrProof, ErrReused, and the store's.
func (d *Desk) RedeemCode(ctx context.Context, code, verifier string, first []byte) (catalog.Session, error) {
	at := catalog.Now()
	t, err := d.p.Codes.open(placeCLI, code, at)
	if err != nil {
		return catalog.Session{}, err
	}
	held, err := d.p.Store.RedeemProof(ctx, Redemption{ID: t.Session, Proof: hash(code), Verifier: hash(verifier), First: first, At: at})
	if errors.Is(err, ErrReused) {
		d.p.View.Look(ctx)
	}
	return held.Session, err
}

// RedeemDevice exchanges a device's code for its session. ok is false until a person types its user
// code. Errors: ErrProof, ErrBusy, and the store's.
func (d *Desk) RedeemDevice(ctx context.Context, code string, first []byte) (_ catalog.Session, ok bool, err error) {
	at := catalog.Now()
	if _, err := d.p.Codes.open(placeDevice, code, at); err != nil {
		return catalog.Session{}, false, err
	}
	if !d.strangers.Allow() {
		return catalog.Session{}, false, ErrBusy
	}
	held, err := d.p.Store.RedeemProof(ctx, Redemption{Proof: userProof(UserCodeOf(code)), First: first, At: at})
	if errors.Is(err, ErrProof) {
		return catalog.Session{}, false, nil // the code itself is good, so it was not typed yet
	}
	return held.Session, err == nil, err
}

// Presented is a token of a session as its holder presents it.
type Presented struct {
	ID    string
	Token secret.Text
	// Next is the hash of the token that follows; nil for a browser.
	Next []byte
}

// Pass is a session that may be exchanged for an access token now.
type Pass struct {
	catalog.Session
	// Life is how long the access token may live.
	Life time.Duration
}

// Exchange takes a token of a session, and reads the person's claims again if it is time. Errors:
// ErrEnded, ErrReused, ErrBusy, and the store's.
func (d *Desk) Exchange(ctx context.Context, p Presented) (Pass, error) {
	began := time.Now()
	pass, err := d.exchange(ctx, p)
	d.p.Metrics.exchanged(ctx, began, err)
	return pass, err
}

func (d *Desk) exchange(ctx context.Context, p Presented) (Pass, error) {
	if _, err := d.know(ctx, p.ID); err != nil {
		return Pass{}, err
	}
	at := catalog.Now()
	held, err := d.p.Store.UseToken(ctx, Use{ID: p.ID, Token: hash(p.Token.Reveal()), Next: p.Next, At: at, IdleBefore: at.Add(-browserIdle)})
	if errors.Is(err, ErrReused) {
		d.p.View.Look(ctx) // so that its access tokens end at once
	}
	if err != nil {
		return Pass{}, err
	}
	if held, err = d.renew(ctx, held, at); err != nil {
		return Pass{}, err
	}
	return Pass{Session: held.Session, Life: tokenLife(held, d.renewEvery(held), at)}, nil
}

// know returns the session of that id, as this replica knows it. It keeps strangers from the store.
func (d *Desk) know(ctx context.Context, id string) (catalog.Session, error) {
	if known, ok := d.p.View.Session(id); ok {
		return known, nil
	}
	if !d.strangers.Allow() {
		return catalog.Session{}, ErrBusy
	}
	d.p.View.Look(ctx)
	if known, ok := d.p.View.Session(id); ok {
		return known, nil
	}
	return catalog.Session{}, ErrEnded
}

// tokenLife returns how long an access token of a session may live: not past the time at which the
// claims are to be read again, so that who left at the provider loses the hub by then. Where the
// provider did not answer in time, half of that period.
func tokenLife(held Held, every time.Duration, at time.Time) time.Duration {
	life := admission.AccessTokenLife
	if !held.RenewAt.IsZero() {
		life = max(held.RenewAt.Sub(at), minTokenLife)
		if !at.Before(held.RenewAt) {
			life = every / 2
		}
	}
	if held.Client == catalog.ClientBrowser {
		life = min(life, BrowserTokenLife)
	}
	return min(life, held.EndsAt.Sub(at))
}

func (d *Desk) renewEvery(held Held) time.Duration {
	if provider, ok := d.p.View.Provider(held.Provider); ok && provider.UID == held.ProviderUID {
		return provider.Spec.RenewEvery()
	}
	return catalog.DefaultRenew
}

// renew reads the person's claims again in the second half of each period, so that access tokens
// live for half a period at least.
func (d *Desk) renew(ctx context.Context, held Held, at time.Time) (Held, error) {
	provider, ok := d.p.View.Provider(held.Provider)
	if !ok || provider.UID != held.ProviderUID || held.RenewAt.IsZero() || held.RenewAt.Sub(at) > provider.Spec.RenewEvery()/2 {
		return held, nil
	}
	refresh, ok, err := d.p.Store.ClaimRenewal(ctx, held.ID, at, at.Add(renewalHeld))
	if err != nil || !ok {
		return held, err
	}
	// The provider may have replaced the refresh token when the caller hangs up, so the answer is
	// waited for and stored anyway.
	ctx = context.WithoutCancel(ctx)
	claims, err := d.p.Provider.Renew(ctx, provider, held.Subject, refresh)
	var person Person
	if err == nil {
		person, err = d.personNow(provider, held, claims)
	}
	switch {
	case err == nil:
		d.p.Metrics.renewed(ctx, provider.Name, renewalConfirmed)
		hasOthers := !slices.Equal(held.Groups, person.Groups)
		held.Groups, held.RenewAt = person.Groups, at.Add(provider.Spec.RenewEvery())
		if err := d.p.Store.SaveRenewal(ctx, held.ID, person.Groups, claims.Refresh, held.RenewAt); err != nil {
			return held, err
		}
		if hasOthers {
			d.p.View.Look(ctx)
		}
		return held, nil
	case errors.Is(err, ErrRejected):
		d.p.Metrics.renewed(ctx, provider.Name, renewalEnded)
		d.p.Logger.InfoContext(ctx, "identity provider ended a session", slog.String("session", held.ID), slog.String("person", held.Person),
			slog.String("provider", held.Provider), slog.Any("error", err))
		if _, err := d.p.Store.EndSessions(ctx, held.ID, ""); err != nil {
			return held, err
		}
		d.p.View.Look(ctx)
		return held, ErrEnded
	}
	d.p.Metrics.renewed(ctx, provider.Name, renewalAway)
	d.p.Logger.WarnContext(ctx, "identity provider did not answer; the session goes on", slog.String("provider", held.Provider), slog.Any("error", err))
	return held, nil
}

// personNow returns the person as the provider describes them now. A person who has another name,
// or who no longer meets a requirement, has to sign in again. Both match ErrRejected.
func (d *Desk) personNow(provider *catalog.IdentityProvider, held Held, claims Claims) (Person, error) {
	if claims.Subject != held.Subject {
		return Person{}, ErrRejected
	}
	if !claims.Complete {
		return Person{Name: held.Person, Groups: held.Groups}, nil
	}
	person, err := PersonOf(provider, claims)
	if err != nil {
		return Person{}, errors.Join(ErrRejected, err)
	}
	if person.Name != held.Person {
		return Person{}, ErrRejected
	}
	return person, nil
}

// SignOut ends the session of a token. A token of no session is no error.
func (d *Desk) SignOut(ctx context.Context, p Presented) error {
	known, err := d.know(ctx, p.ID)
	if err == nil {
		// The token proves that the caller holds the session. Its successor does not matter: the
		// session ends.
		use := Use{ID: p.ID, Token: hash(p.Token.Reveal()), At: catalog.Now()}
		if known.Client != catalog.ClientBrowser {
			use.Next = hash(rand.Text())
		}
		_, err = d.p.Store.UseToken(ctx, use)
	}
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrReused) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.Revoke(ByPerson(ctx, known), p.ID)
}

// Revoke ends a session.
func (d *Desk) Revoke(ctx context.Context, id string) error {
	_, err := d.p.Store.EndSessions(ctx, id, "")
	d.p.View.Look(ctx)
	return err
}

// RevokePerson ends all sessions of a person, and returns how many.
func (d *Desk) RevokePerson(ctx context.Context, person string) (int, error) {
	n, err := d.p.Store.EndSessions(ctx, "", person)
	d.p.View.Look(ctx)
	return n, err
}

// List returns the live sessions of a person, or all if the name is empty.
func (d *Desk) List(ctx context.Context, person string) ([]catalog.Session, error) {
	return d.p.Store.ListSessions(ctx, person)
}
