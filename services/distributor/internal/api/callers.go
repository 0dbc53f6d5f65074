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
)

// person returns the caller if it is a person who may do everything.
func person(ctx context.Context) (identity.Identity, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindUser {
		return id, denied("only people may call this")
	}
	if !slices.Contains(id.Groups, admission.AdminGroup) {
		return id, denied("you may not do this; ask an administrator for a binding")
	}
	return id, nil
}

// service checks that the caller is one of the hub's services.
func service(ctx context.Context) error {
	if id, _ := identity.FromContext(ctx); id.Kind != identity.KindService {
		return denied("only the hub's own services may call this")
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
	user catalog.User
	at   time.Time
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
	if ok && time.Since(known.at) < tokenFresh {
		return identityOf(known.user, hash), nil
	}
	user, err := t.people.UserByToken(ctx, []byte(hash))
	switch {
	case err == nil:
		t.remember(hash, user)
		return identityOf(user, hash), nil
	case errors.Is(err, catalog.ErrNotFound):
		t.forget(hash)
		return identity.Identity{}, identity.ErrTokenInvalid
	case ok && errors.Is(err, catalog.ErrUnavailable) && time.Since(known.at) < tokenKept:
		return identityOf(known.user, hash), nil
	case errors.Is(err, catalog.ErrUnavailable):
		return identity.Identity{}, errors.Join(identity.ErrUnavailable, err)
	}
	return identity.Identity{}, err
}

func (t *Tokens) recall(hash string) (knownUser, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[hash]
	return known, ok
}

func (t *Tokens) remember(hash string, user catalog.User) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= tokenMax {
		clear(t.known)
	}
	t.known[hash] = knownUser{user: user, at: time.Now()}
}

func (t *Tokens) forget(hash string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, hash)
}

// identityOf names the token by a part of its hash, which reveals nothing of the token.
func identityOf(user catalog.User, hash string) identity.Identity {
	return identity.Identity{
		Kind:    identity.KindUser,
		Name:    user.Name,
		UID:     user.UID,
		Groups:  user.Groups,
		TokenID: apiTokenID + hexOf(hash[:8]),
	}
}
