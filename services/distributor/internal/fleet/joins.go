// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/ed25519"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

const (
	// joinLookPause is the least time between two reads of the join tokens on behalf of callers, however many there are.
	joinLookPause = 250 * time.Millisecond
	// tokenBurst and tokenEvery bound how often one join token can be used. An agent needs it once, and again when an answer is lost.
	tokenBurst = 5
	tokenEvery = time.Second
)

// JoinTokens decides whether a join token is worth an edit of the catalog, so that guesses cost none. It is safe for concurrent use.
//
// It keeps the hashes of the tokens that are outstanding. A caller with a token that it does not know waits for the next read of the
// store, which all such callers share: a flood of guesses costs the store four small reads a second. A token that is
// known passes at once. Guesses therefore delay an honest enrolment by a quarter of a second at most, from whatever address they come;
// a bound per address would shut out everybody who comes through the same proxy as the guesses.
type JoinTokens struct {
	store catalog.Enrolments
	looks flight

	mu    sync.Mutex
	known map[string]*joinToken
}

// joinToken is one outstanding token.
type joinToken struct {
	used bool
	// key is the cluster's, nil where there is none.
	key ed25519.PublicKey
	// isStale is true when the store refused the token although it is here.
	isStale bool
	rate    *rate.Limiter
}

// NewJoinTokens returns a JoinTokens of the store.
func NewJoinTokens(store catalog.Enrolments) *JoinTokens {
	j := &JoinTokens{store: store, known: map[string]*joinToken{}}
	j.looks = flight{run: j.read, pause: joinLookPause}
	return j
}

// Admit reports whether an agent may try to enrol with the token that has this hash: wait is zero if it may, and
// otherwise the time after which it may try again. A token that nobody can use for this key fails with
// catalog.ErrJoinTokenInvalid; a store that does not answer with catalog.ErrUnavailable. It takes no lock of the store.
func (j *JoinTokens) Admit(ctx context.Context, hash []byte, key ed25519.PublicKey) (wait time.Duration, err error) {
	if wait, ok := j.admit(hash, key); ok {
		return wait, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, errSlowStore)
	defer cancel()
	if err := j.looks.Do(ctx); err != nil {
		return 0, err
	}
	if wait, ok := j.admit(hash, key); ok {
		return wait, nil
	}
	return 0, catalog.ErrJoinTokenInvalid
}

// admit reports whether the token is known and fits the key.
func (j *JoinTokens) admit(hash []byte, key ed25519.PublicKey) (wait time.Duration, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.known[string(hash)]
	if t == nil || t.isStale || (t.used && !t.key.Equal(key)) {
		return 0, false
	}
	if !t.rate.Allow() {
		return tokenEvery, true
	}
	return 0, true
}

// Created adds a token that this replica has just stored.
func (j *JoinTokens) Created(hash []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known[string(hash)] = newJoinToken()
}

// Refused notes that the store did not take a token which Admit let pass. The next use looks into the store first.
func (j *JoinTokens) Refused(hash []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t := j.known[string(hash)]; t != nil {
		t.isStale = true
	}
}

func newJoinToken() *joinToken {
	return &joinToken{rate: rate.NewLimiter(rate.Every(tokenEvery), tokenBurst)}
}

// read replaces what is known by what the store holds. A token keeps its rate. A token that Created adds during the read
// may be lost, and is found by the next read.
func (j *JoinTokens) read(ctx context.Context) error {
	stored, err := j.store.JoinTokens(ctx)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	known := make(map[string]*joinToken, len(stored))
	for _, s := range stored {
		t := j.known[string(s.Hash)]
		if t == nil {
			t = newJoinToken()
		}
		t.used, t.key, t.isStale = s.Used, s.ClusterKey, false
		known[string(s.Hash)] = t
	}
	j.known = known
	return nil
}
