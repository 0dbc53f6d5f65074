// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func testEnrolment(t *testing.T, s subject) {
	ctx := t.Context()
	apply(t, s, cluster("one"))
	if err := s.Enrolments().CreateJoinToken(ctx, "none", []byte("h"), time.Now().Add(time.Hour)); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	for hash, life := range map[string]time.Duration{"good": time.Hour, "old": -time.Minute, "spare": time.Hour} {
		if err := s.Enrolments().CreateJoinToken(ctx, "one", []byte(hash), time.Now().Add(life)); err != nil {
			t.Fatal(err)
		}
	}
	key, other := bytes.Repeat([]byte{1}, ed25519.PublicKeySize), bytes.Repeat([]byte{2}, ed25519.PublicKeySize)
	for _, hash := range []string{"old", "unknown"} {
		if _, err := s.Enrolments().Enrol(ctx, []byte(hash), key, "v1"); !errors.Is(err, catalog.ErrJoinTokenInvalid) {
			t.Errorf("token %s: got %v, want invalid", hash, err)
		}
	}
	for range 2 { // the second is the agent that did not get the first answer
		c, err := s.Enrolments().Enrol(ctx, []byte("good"), key, "v1")
		if err != nil {
			t.Fatal(err)
		}
		if c.Agent.KeyGeneration != 1 || !bytes.Equal(c.Agent.PublicKey, key) || c.Agent.Report.AgentVersion != "v1" {
			t.Errorf("got %+v, want the key in generation 1", c.Agent)
		}
	}
	if _, err := s.Enrolments().Enrol(ctx, []byte("good"), other, "v1"); !errors.Is(err, catalog.ErrJoinTokenInvalid) {
		t.Errorf("got %v, want invalid: the token was used by another key", err)
	}
	tokens, err := s.Enrolments().JoinTokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, token := range tokens {
		listed[string(token.Hash)] = token.Used
		if !token.ClusterKey.Equal(ed25519.PublicKey(key)) {
			t.Errorf("token %s: got the key %x, want the cluster's", token.Hash, token.ClusterKey)
		}
	}
	if want := map[string]bool{"good": true, "spare": false}; !maps.Equal(listed, want) {
		t.Errorf("got %v, want %v: those that can be used, and the used", listed, want)
	}
	before := changes(t, s, 0).Revision
	if err := s.Enrolments().Revoke(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	if got := changes(t, s, before).Clusters[0].Agent; got.Enrolled() || got.KeyGeneration != 2 {
		t.Errorf("got %+v, want no key in generation 2", got)
	}
	if _, err := s.Enrolments().Enrol(ctx, []byte("spare"), key, "v1"); !errors.Is(err, catalog.ErrJoinTokenInvalid) {
		t.Errorf("got %v, want invalid: revocation ends unused tokens", err)
	}
	if err := s.Enrolments().Revoke(ctx, "none"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

// testJoinTokensTakeNoLock reads the join tokens while an edit holds the lock that all edits take.
// It skips SQLite, which has one connection for all calls.
func testJoinTokensTakeNoLock(t *testing.T, s subject) {
	if strings.HasPrefix(s.url, "sqlite:") {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.Edit(ctx, func(context.Context, catalog.Tx) error {
		_, err := s.Enrolments().JoinTokens(ctx)
		return err
	})
	if err != nil {
		t.Errorf("got %v, want an answer while somebody edits", err)
	}
}

func testEnrolRace(t *testing.T, s subject) {
	ctx := t.Context()
	apply(t, s, cluster("one"))
	if err := s.Enrolments().CreateJoinToken(ctx, "one", []byte("once"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var wins sync.Map
	var agents sync.WaitGroup
	for i := range 10 {
		agents.Go(func() {
			key := bytes.Repeat([]byte{byte(i + 1)}, ed25519.PublicKeySize)
			switch _, err := s.Enrolments().Enrol(ctx, []byte("once"), key, ""); {
			case err == nil:
				wins.Store(i, true)
			case !errors.Is(err, catalog.ErrJoinTokenInvalid):
				t.Errorf("got %v, want invalid", err)
			}
		})
	}
	agents.Wait()
	n := 0
	wins.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("got %d enrolments with one token, want 1", n)
	}
}

func testPresence(t *testing.T, s subject) {
	apply(t, s, cluster("one"))
	uid := changes(t, s, 0).Clusters[0].UID
	at := time.Now().UTC().Truncate(time.Microsecond)
	for _, seen := range []time.Time{at, at.Add(-time.Minute)} {
		fleet := make([]catalog.Presence, 1000) // of clusters that were deleted in the meantime
		for i := range fleet {
			fleet[i] = catalog.Presence{ClusterUID: fmt.Sprint(i), SeenAt: seen, ConnectedUntil: seen}
		}
		fleet = append(fleet, catalog.Presence{ClusterUID: uid, SeenAt: seen, ConnectedUntil: seen.Add(time.Hour)})
		if err := s.SavePresence(t.Context(), fleet); err != nil {
			t.Fatal(err)
		}
	}
	if got := changes(t, s, 1).Clusters[0].Agent; !got.LastSeenAt.Equal(at) || !got.ConnectedUntil.Equal(at.Add(time.Hour)) {
		t.Errorf("got %+v, want the latest presence", got)
	}
}

// testNow relies on a database on this machine, with its clock.
func testNow(t *testing.T, s subject) {
	before := catalog.Now()
	got, err := s.Now(t.Context())
	if after := catalog.Now(); err != nil || got.Before(before) || got.After(after) || got.Location() != time.UTC {
		t.Errorf("got %s, %v, want a time in UTC between %s and %s", got, err, before, after)
	}
}
