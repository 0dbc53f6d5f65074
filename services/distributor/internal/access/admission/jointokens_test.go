// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// tokens is a store of join tokens that counts how often it is read.
type tokens struct {
	catalog.Enrolments

	mu    sync.Mutex
	held  []catalog.JoinToken
	err   error
	reads int
}

func (s *tokens) JoinTokens(context.Context) ([]catalog.JoinToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.held, s.err
}

func (s *tokens) hold(held ...catalog.JoinToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
}

func (s *tokens) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

var one, two = ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)), ed25519.PublicKey(append(make([]byte, ed25519.PublicKeySize-1), 1))

// TestSecGuessedJoinTokensHoldNobodyUp runs a thousand guessers without a pause for ten seconds,
// beside an agent whose token another replica has made.
func TestSecGuessedJoinTokensHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &tokens{}
		joins := admission.NewJoinTokens(store)
		const guessers, lasting = 1000, 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), lasting)
		defer cancel()
		var guessing sync.WaitGroup
		for i := range guessers {
			guessing.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if wait, err := joins.Admit(ctx, fmt.Append(nil, "guess ", i, n), one); err == nil || wait != 0 {
						t.Error("a guess was admitted")
						return
					}
				}
			})
		}
		<-time.After(lasting / 2) // virtual
		store.hold(catalog.JoinToken{Hash: []byte("honest")})
		began := time.Now()
		wait, err := joins.Admit(ctx, []byte("honest"), one)
		if took := time.Since(began); err != nil || wait != 0 || took > 500*time.Millisecond {
			t.Errorf("got %s, %v after %s, want the honest agent admitted at once", wait, err, took)
		}
		guessing.Wait()
		if most := int(5 * lasting / time.Second); store.count() > most {
			t.Errorf("the store was read %d times within %s, want at most %d", store.count(), lasting, most)
		}
		<-time.After(time.Second) // the pause after the last read ends
	})
}

func TestJoinTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &tokens{held: []catalog.JoinToken{
			{Hash: []byte("unused")}, {Hash: []byte("used"), Used: true, ClusterKey: one}, {Hash: []byte("revoked"), Used: true},
		}}
		joins := admission.NewJoinTokens(store)
		admit := func(hash string, key ed25519.PublicKey) error {
			wait, err := joins.Admit(t.Context(), []byte(hash), key)
			if wait != 0 {
				t.Errorf("%s has to wait %s", hash, wait)
			}
			return err
		}
		for _, known := range []error{admit("unused", two), admit("used", one)} {
			if known != nil {
				t.Errorf("got %v, want it admitted", known)
			}
		}
		reads := store.count()
		if err := admit("unused", two); err != nil || store.count() != reads {
			t.Errorf("got %v and %d reads, want a known token to cost none", err, store.count()-reads)
		}
		for _, refused := range []error{admit("used", two), admit("revoked", one), admit("unknown", one)} {
			if !errors.Is(refused, catalog.ErrJoinTokenInvalid) {
				t.Errorf("got %v, want %v", refused, catalog.ErrJoinTokenInvalid)
			}
		}
		joins.Created(catalog.JoinToken{Hash: []byte("made here")})
		reads = store.count()
		if err := admit("made here", one); err != nil || store.count() != reads {
			t.Errorf("got %v and %d reads, want a token that was made here to be known", err, store.count()-reads)
		}
		// The store has rejected the token, and the next read agrees.
		joins.Refused([]byte("made here"))
		if err := admit("made here", one); !errors.Is(err, catalog.ErrJoinTokenInvalid) {
			t.Errorf("got %v, want what the store says", err)
		}
		store.mu.Lock()
		store.err = catalog.ErrUnavailable
		store.mu.Unlock()
		if err := admit("unknown", one); !errors.Is(err, catalog.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, catalog.ErrUnavailable)
		}
		<-time.After(time.Second) // the pause after the last read ends
	})
}

// TestSecOneJoinTokenIsUsedAtARate enrols again and again with a used token, which costs an edit
// each time.
func TestSecOneJoinTokenIsUsedAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joins := admission.NewJoinTokens(&tokens{held: []catalog.JoinToken{{Hash: []byte("used"), Used: true, ClusterKey: one}, {Hash: []byte("honest")}}})
		admitted := 0
		for range 10_000 {
			wait, err := joins.Admit(t.Context(), []byte("used"), one)
			if err != nil {
				t.Fatal(err)
			}
			if wait == 0 {
				admitted++
			}
		}
		if admitted > 10 {
			t.Errorf("one token was admitted %d times at once, want a few", admitted)
		}
		if wait, err := joins.Admit(t.Context(), []byte("honest"), two); wait != 0 || err != nil {
			t.Errorf("got %s, %v for another token, want it admitted", wait, err)
		}
		<-time.After(time.Second) // the pause after the read ends
	})
}

// TestSecOneBootstrapTokenIsUsedAtARate tries a bootstrap token with other keys without end, as a
// holder of a leaked one does. Agents with another bootstrap token are admitted, also when many come
// at once.
func TestSecOneBootstrapTokenIsUsedAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joins := admission.NewJoinTokens(&tokens{held: []catalog.JoinToken{
			{Hash: []byte("leaked"), IsBootstrap: true}, {Hash: []byte("honest"), IsBootstrap: true},
		}})
		try := func(hash string, n int) (admitted int) {
			for i := range n {
				key := make(ed25519.PublicKey, ed25519.PublicKeySize)
				key[0], key[1] = byte(i), byte(i>>8)
				wait, err := joins.Admit(t.Context(), []byte(hash), key)
				if err != nil {
					t.Fatal(err)
				}
				if wait == 0 {
					admitted++
				}
			}
			return admitted
		}
		if n := try("leaked", 10_000); n > 50 {
			t.Errorf("one token was admitted %d times at once, want some tens", n)
		}
		if n := try("honest", 20); n != 20 {
			t.Errorf("%d of 20 agents with another token were admitted", n)
		}
		<-time.After(10 * time.Second) // virtual
		if n := try("leaked", 10_000); n > 100 {
			t.Errorf("one token was admitted %d times after ten seconds, want some tens", n)
		}
		<-time.After(time.Second) // the pause after the read ends
	})
}
