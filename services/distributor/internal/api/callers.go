// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// person returns the caller if it is a person, with the groups that it has now: a token may be an hour old.
func (s *Fleet) person(ctx context.Context) (identity.Identity, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindUser {
		return id, denied("only people may call this")
	}
	id, ok := current(ctx, s.d.View, id)
	if !ok {
		return id, tokenInvalid("the user, or the API token behind this one, has ended; obtain a new token")
	}
	return id, nil
}

// admin returns the caller if it is a person who may do everything.
func (s *Fleet) admin(ctx context.Context) (identity.Identity, error) {
	id, err := s.person(ctx)
	if err != nil {
		return id, err
	}
	if !isAdmin(id) {
		return id, errNotAdmin()
	}
	return id, nil
}

func errNotAdmin() error { return denied("you may not do this; ask an administrator for a binding") }

func isAdmin(id identity.Identity) bool { return slices.Contains(id.Groups, admission.AdminGroup) }

// current returns the person with the groups of now. ok is false for a user that was deleted, even if there is another one of the
// name by now, and for what was given for an API token that has ended. Who has no uid is nobody whom the hub knows itself: their
// token alone says who they are.
func current(ctx context.Context, view *fleet.View, id identity.Identity) (now identity.Identity, ok bool) {
	if id.UID == "" {
		return id, true
	}
	if now, ok = lives(view, id); ok {
		return now, true
	}
	// Another replica may have made the user or the token just now.
	view.Look(ctx)
	return lives(view, id)
}

func lives(view *fleet.View, id identity.Identity) (identity.Identity, bool) {
	user, ok := view.User(id.Name)
	if !ok || user.UID != id.UID {
		return id, false
	}
	if token, ok := strings.CutPrefix(id.Credential, apiTokenID); ok && !view.TokenLives(token, id.UID, time.Now()) {
		return id, false
	}
	id.Groups = user.Spec.Groups
	return id, true
}

// tunnel returns an error unless the caller is the hub's tunnel. The tunnel is the only service that asks which
// people may reach which cluster.
func tunnel(ctx context.Context) error {
	if id, _ := identity.FromContext(ctx); id.Kind != identity.KindService || id.Name != identity.ServiceTunnel {
		return denied("only the hub's tunnel may call this")
	}
	return nil
}

// agent returns the cluster whose agent calls, and when its token ends.
func (s *Distributor) agent(ctx context.Context) (*catalog.Cluster, identity.Identity, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindCluster {
		return nil, id, denied("only a cluster's agent may call this")
	}
	cluster, ok := s.d.View.Admit(ctx, id.Name, id.UID)
	if !ok {
		return nil, id, tokenInvalid("the cluster's identity has ended; obtain a new token")
	}
	return cluster, id, nil
}

const (
	// tokenFresh is how long an API token is accepted without asking the store again.
	tokenFresh = 30 * time.Second
	// tokenKept is how long it goes on being accepted when the store does not answer.
	tokenKept = 10 * time.Minute
	// tokenTouched is how old the stored time of a token's use may get.
	tokenTouched = 5 * time.Minute
	// tokenMax bounds the tokens that are remembered.
	tokenMax = 4096
	// apiTokenID begins the id of an identity that came with an API token.
	apiTokenID = "api."
)

// Tokens verifies people's API tokens against the store. It is safe for concurrent use.
type Tokens struct {
	people catalog.People

	mu    sync.Mutex
	known map[string]knownUser
}

type knownUser struct {
	signIn catalog.SignIn
	at     time.Time
}

var _ identity.Verifier = (*Tokens)(nil)

// NewTokens returns a verifier over the store.
func NewTokens(people catalog.People) *Tokens {
	return &Tokens{people: people, known: map[string]knownUser{}}
}

// Verify implements identity.Verifier.
func (t *Tokens) Verify(ctx context.Context, token string) (identity.Identity, error) {
	if !strings.HasPrefix(token, admission.APITokenPrefix) {
		return identity.Identity{}, identity.ErrTokenInvalid
	}
	hash := string(admission.Hash(token))
	known, ok := t.recall(hash)
	if ok && time.Since(known.at) < tokenFresh && !known.signIn.Token.Expired(time.Now()) {
		return identityOf(known.signIn), nil
	}
	signIn, err := t.people.UserByToken(ctx, []byte(hash))
	switch {
	case err == nil:
		t.remember(hash, t.touch(ctx, hash, signIn))
		return identityOf(signIn), nil
	case errors.Is(err, catalog.ErrNotFound):
		t.forget(hash)
		return identity.Identity{}, identity.ErrTokenInvalid
	case ok && errors.Is(err, catalog.ErrUnavailable) && time.Since(known.at) < tokenKept && !known.signIn.Token.Expired(time.Now()):
		return identityOf(known.signIn), nil
	case errors.Is(err, catalog.ErrUnavailable):
		return identity.Identity{}, errors.Join(identity.ErrUnavailable, err)
	}
	return identity.Identity{}, err
}

// touch notes that the token is in use, now and then. What is only for people to see is not worth an error.
func (t *Tokens) touch(ctx context.Context, hash string, signIn catalog.SignIn) catalog.SignIn {
	at := time.Now()
	if at.Sub(signIn.Token.LastUsedAt) >= tokenTouched && t.people.TouchToken(ctx, []byte(hash), at) == nil {
		signIn.Token.LastUsedAt = at
	}
	return signIn
}

func (t *Tokens) recall(hash string) (knownUser, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[hash]
	return known, ok
}

func (t *Tokens) remember(hash string, signIn catalog.SignIn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= tokenMax {
		clear(t.known)
	}
	t.known[hash] = knownUser{signIn: signIn, at: time.Now()}
}

func (t *Tokens) forget(hash string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, hash)
}

// identityOf names the token by its id, which reveals nothing of the token.
func identityOf(signIn catalog.SignIn) identity.Identity {
	id := apiTokenID + signIn.Token.ID
	return identity.Identity{
		Kind:       identity.KindUser,
		Name:       signIn.User.Name,
		UID:        signIn.User.UID,
		Groups:     signIn.User.Spec.Groups,
		TokenID:    id,
		Credential: id,
		Expires:    signIn.Token.ExpiresAt,
	}
}
