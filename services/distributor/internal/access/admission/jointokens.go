// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/ed25519"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/lookup"
)

const (
	// joinReadPause is the least time between two reads of the join tokens on behalf of callers,
	// however many callers there are.
	joinReadPause = 250 * time.Millisecond
	// tokenBurst and tokenEvery bound how often one join token can be used. An agent needs it once,
	// and again if an answer is lost.
	tokenBurst = 5
	tokenEvery = time.Second
	// bootstrapRate is how many agents a second one bootstrap token lets in.
	bootstrapRate = 5
)

// JoinTokens decides whether a join token or a bootstrap token may cost an edit of the catalog, so that guesses do not
// cost any. It is safe for concurrent use.
//
// It keeps the hashes of the outstanding tokens. A known token passes at once. A caller with an
// unknown token waits for the next read of the store. All such callers share that read, so a flood
// of guesses costs the store four small reads a second. Guesses therefore delay an honest enrolment
// by at most a quarter of a second, from whatever address they come. A bound per address would shut
// out every agent behind the same proxy as the guesses.
type JoinTokens struct {
	store catalog.Enrolments
	reads *lookup.Flight

	mu    sync.Mutex
	known map[string]*joinToken
}

// joinToken is one outstanding token.
type joinToken struct {
	catalog.JoinToken
	// isStale is true after the store has rejected the token although it is known here.
	isStale bool
	// enter admits one use, or returns when the caller may come again.
	enter func() (wait time.Duration, ok bool)
}

// NewJoinTokens returns a JoinTokens that reads from store.
func NewJoinTokens(store catalog.Enrolments) *JoinTokens {
	j := &JoinTokens{store: store, known: map[string]*joinToken{}}
	j.reads = lookup.NewFlight(joinReadPause, j.read)
	return j
}

// Admit checks whether an agent may try to enrol with the token that has this hash. wait is zero if
// it may, and otherwise the time after which it may try again. Admit returns
// catalog.ErrJoinTokenInvalid if the token cannot be used with this key, and catalog.ErrUnavailable
// if the store does not answer. It does not take a lock of the store.
func (j *JoinTokens) Admit(ctx context.Context, hash []byte, key ed25519.PublicKey) (wait time.Duration, err error) {
	if wait, ok := j.admit(hash, key); ok {
		return wait, nil
	}
	ctx, cancel := lookup.Bounded(ctx, lookup.Timeout)
	defer cancel()
	if err := j.reads.Do(ctx); err != nil {
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
	if t == nil || t.isStale || (t.Used && !t.ClusterKey.Equal(key)) {
		return 0, false
	}
	wait, _ = t.enter()
	return wait, true
}

// Created adds a token that this replica has just stored.
func (j *JoinTokens) Created(t catalog.JoinToken) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known[string(t.Hash)] = newJoinToken(t)
}

// Refused records that the store rejected a token that Admit had admitted. The next use of the
// token reads the store first.
func (j *JoinTokens) Refused(hash []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t := j.known[string(hash)]; t != nil {
		t.isStale = true
	}
}

// newJoinToken returns a token with a rate of its own: a bootstrap token admits many agents, and
// tells rejected ones when to come again, one after another.
func newJoinToken(t catalog.JoinToken) *joinToken {
	if t.IsBootstrap {
		return &joinToken{JoinToken: t, enter: NewGate(bootstrapRate).Enter}
	}
	limiter := rate.NewLimiter(rate.Every(tokenEvery), tokenBurst)
	return &joinToken{JoinToken: t, enter: func() (time.Duration, bool) {
		if limiter.Allow() {
			return 0, true
		}
		return tokenEvery, false
	}}
}

// read replaces the known tokens by those in the store. A token keeps its rate. A token that
// Created adds during the read may be missing until the next read.
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
			t = newJoinToken(s)
		}
		t.JoinToken, t.isStale = s, false
		known[string(s.Hash)] = t
	}
	j.known = known
	return nil
}
