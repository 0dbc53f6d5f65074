// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package session signs people in whom an identity provider knows, and keeps them signed in.
//
// # Promises
//
// A session begins when a provider has confirmed a person's identity, and ends after the time that
// the provider's document allows. Only hashes of its tokens are stored. A token is replaced at each
// use: its holder chooses the successor and repeats a request whose answer was lost. A token that
// comes again with another successor was stolen, so it ends the session. A browser's token is in a
// cookie that no script can read, and stays; its session ends after an hour without use.
//
// The provider is asked for the person's claims again while a session is used, so that a person who
// left there loses the hub within the provider's renew. A provider that does not answer changes
// nothing until the session ends.
//
// # States
//
//	pending ──redeemed──▶ live ──ends, revoked, refused by the provider, token stolen──▶ gone
//
// A pending session waits for its proof, which is a code of a minute or the code of a device, and
// gives no access.
//
// # What it does not do
//
// It speaks to no provider and no browser, and decides nothing about rights: packages oidclogin,
// loginpages and fleet do. Every type is safe for concurrent use and holds no lock over a call.
package session

import (
	"context"
	"errors"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var (
	// ErrEnded means that there is no such session, or no such token of it. A new sign-in helps.
	ErrEnded = errors.New("the session has ended")
	// ErrReused means that a token came a second time, with another successor. The session ended.
	ErrReused = errors.New("a token of the session was used twice, so the session has ended")
	// ErrProof means that a proof is unknown, has expired, or does not fit its verifier.
	ErrProof = errors.New("the proof of the sign-in is not valid, or no longer")
	// ErrRejected means that the provider no longer vouches for the person.
	ErrRejected = errors.New("the identity provider no longer vouches for the person")
	// ErrNameTaken means that the name of the person belongs to a user of the hub.
	ErrNameTaken = errors.New("the name belongs to a user of the hub")
	// ErrBusy means that too many strangers ask at once. Trying again helps.
	ErrBusy = errors.New("too many callers without a session")
)

// New is a session that is about to be stored.
type New struct {
	catalog.Session
	// Proof is the hash of what begins it: the code of a command line, the code of a device, or a
	// browser's token.
	Proof []byte
	// Challenge is the SHA-256 of the verifier that has to come with a code; nil: none.
	Challenge []byte
	// ProofEndsAt is when a pending session ends. EndsAt is when a redeemed one does.
	ProofEndsAt time.Time
	// RenewAt is when its claims are to be read again; zero: never, for want of a refresh token.
	RenewAt time.Time
	// Refresh is the provider's refresh token; empty: the provider gave none.
	Refresh secret.Text
}

// Held is a session as its holder has it.
type Held struct {
	catalog.Session
	// RenewAt is when its claims are to be read again; zero: never.
	RenewAt time.Time
}

// Redemption exchanges a proof for the first token of a session.
type Redemption struct {
	// ID is the session's, empty where only Proof is known.
	ID string
	// Proof and Verifier are hashes; Verifier is nil for a device.
	Proof, Verifier []byte
	// First is the hash of the first token.
	First []byte
	At    time.Time
}

// Use presents a token of a session.
type Use struct {
	ID string
	// Token is the hash of the token, and Next the hash of its successor. A browser's token stays, so
	// Next is nil for it, and only for it.
	Token, Next []byte
	At          time.Time
	// IdleBefore is the time since which a browser's session must have been used.
	IdleBefore time.Time
}

// Store keeps sessions for all replicas. Every method is one transaction. Errors are those named,
// or match catalog.ErrUnavailable.
type Store interface {
	// CreateSession stores a session. Of a person with too many, the oldest end. Error: ErrProof, if
	// the proof belongs to another session.
	CreateSession(ctx context.Context, s New) error
	// RedeemProof makes a pending session live. The same redemption may be repeated. Another one of
	// the same code ends the session; another one of the same device's code is refused. A verifier
	// that does not fit ends the session, too. Errors: ErrProof, ErrReused.
	RedeemProof(ctx context.Context, r Redemption) (Held, error)
	// UseToken replaces a token by its successor. The same use may be repeated as long as the
	// successor was not used. Errors: ErrEnded, ErrReused.
	UseToken(ctx context.Context, u Use) (Held, error)
	// ClaimRenewal reserves the renewal of a session until then, and returns the refresh token. ok
	// is false where another caller holds it.
	ClaimRenewal(ctx context.Context, id string, at, until time.Time) (refresh secret.Text, ok bool, err error)
	// SaveRenewal stores what a renewal brought. A session that is gone is no error.
	SaveRenewal(ctx context.Context, id string, groups []string, refresh secret.Text, renewAt time.Time) error
	// EndSessions ends one session by its id, or a person's, and returns how many.
	EndSessions(ctx context.Context, id, person string) (int, error)
	// ListSessions returns live sessions, of one person if its name is given.
	ListSessions(ctx context.Context, person string) ([]catalog.Session, error)
}

// View is this replica's copy of the catalog; fleet.View implements it.
type View interface {
	// Session returns a session by its id, also a pending one.
	Session(id string) (catalog.Session, bool)
	// User returns a user of the hub by its name.
	User(name string) (*catalog.User, bool)
	// Provider returns an identity provider by its name, without its secret.
	Provider(name string) (*catalog.IdentityProvider, bool)
	// Look refreshes the copy.
	Look(ctx context.Context)
}

// Provider speaks to identity providers; oidclogin implements it.
type Provider interface {
	// Renew asks a provider for a person's claims by a refresh token. Error: ErrRejected where the
	// provider refuses; all others mean that it is unknown now.
	Renew(ctx context.Context, provider *catalog.IdentityProvider, subject string, refresh secret.Text) (Claims, error)
}

// Transaction ties the two halves of a sign-in together.
type Transaction struct {
	State, Nonce string
	// Verifier is the hub's own (RFC 7636).
	Verifier secret.Text
}

// Claims are a provider's verified claims about a person.
type Claims struct {
	// Subject is the provider's name for the person.
	Subject string
	// Values are all claims by name, as JSON decodes them.
	Values map[string]any
	// Complete is false where the provider confirmed the person without naming claims: the former ones
	// still hold.
	Complete bool
	// Refresh is the refresh token; empty: the one before stays valid.
	Refresh secret.Text
}
