// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relaytest

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// Subject is a store to test.
type Subject struct {
	// Store is empty.
	Store relay.Store
	// Expire lets as much time pass as a replica's life lasts without a sign of it.
	Expire func()
	// Flush makes the store forget everything.
	Flush func()
}

// Two replicas that the conformance tests have.
var (
	replicaA = relay.Replica{ID: "a", URL: "http://a:8701"}
	replicaB = relay.Replica{ID: "b", URL: "https://b:8701"}
)

// Conform tests a store. A new subject is made for each test.
func Conform(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Subject){
		"NewestFirst":              newestFirst,
		"EpochsLast":               epochsLast,
		"WithdrawalIsExact":        withdrawalIsExact,
		"DeadReplicasHaveNoRoutes": deadReplicas,
		"LeavingVoidsAllRoutes":    leaving,
		"FlushIsNoticed":           flushIsNoticed,
		"NewRoutesAreAnnounced":    announcements,
		"NothingAsked":             nothingAsked,
	} {
		t.Run(name, func(t *testing.T) { test(t, subject(t)) })
	}
}

func route(replica relay.Replica, id string) relay.Route {
	return relay.Route{
		ID: replica.ID + "." + id, Cluster: "shop.prod", ClusterUID: "uid with a space", Connection: `c-"` + id, Replica: replica,
	}
}

func renew(t *testing.T, s relay.Store, replica relay.Replica, want bool) {
	t.Helper()
	if kept, err := s.Renew(t.Context(), replica); err != nil || kept != want {
		t.Fatalf("renew %s: got %v, %v, want %v", replica.ID, kept, err, want)
	}
}

func publish(t *testing.T, s relay.Store, routes ...relay.Route) []relay.Route {
	t.Helper()
	epochs, err := s.Publish(t.Context(), routes)
	if err != nil || len(epochs) != len(routes) {
		t.Fatalf("publish: got %v, %v, want %d epochs", epochs, err, len(routes))
	}
	published := slices.Clone(routes)
	for i := range published {
		published[i].Epoch = epochs[i]
	}
	return published
}

func wantRoutes(t *testing.T, s relay.Store, want ...relay.Route) {
	t.Helper()
	got, err := s.Lookup(t.Context(), "shop.prod")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("routes (-want +got):\n%s", diff)
	}
}

func newestFirst(t *testing.T, s Subject) {
	renew(t, s.Store, replicaA, false)
	renew(t, s.Store, replicaB, false)
	renew(t, s.Store, replicaA, true)
	wantRoutes(t, s.Store)
	other := route(replicaA, "9")
	other.Cluster = "shop"
	first := publish(t, s.Store, route(replicaA, "1"), other, route(replicaA, "2"))
	second := publish(t, s.Store, route(replicaB, "1"))
	wantRoutes(t, s.Store, second[0], first[2], first[0])
}

// epochsLast publishes known routes again: to keep it alive, because the answer was lost, and after
// a loss.
func epochsLast(t *testing.T, s Subject) {
	renew(t, s.Store, replicaA, false)
	old := publish(t, s.Store, route(replicaA, "1"))[0]
	newer := publish(t, s.Store, route(replicaA, "2"))[0]
	for _, again := range []relay.Route{old, route(replicaA, "1")} {
		if got := publish(t, s.Store, again)[0]; got.Epoch != old.Epoch {
			t.Errorf("got epoch %d, want %d as before", got.Epoch, old.Epoch)
		}
	}
	wantRoutes(t, s.Store, newer, old)
	s.Flush()
	renew(t, s.Store, replicaA, false)
	newest := publish(t, s.Store, route(replicaA, "3"))[0]
	publish(t, s.Store, newer, old)
	wantRoutes(t, s.Store, newest, newer, old)
}

func withdrawalIsExact(t *testing.T, s Subject) {
	renew(t, s.Store, replicaA, false)
	renew(t, s.Store, replicaB, false)
	twin := route(replicaA, "2")
	twin.Connection = route(replicaA, "1").Connection // an agent may use an id twice
	gone := publish(t, s.Store, route(replicaA, "1"))
	stays := publish(t, s.Store, twin, route(replicaB, "1"))
	unknown := route(replicaB, "7")
	for range 2 {
		if err := s.Store.Withdraw(t.Context(), append(gone, unknown)); err != nil {
			t.Fatal(err)
		}
	}
	wantRoutes(t, s.Store, stays[1], stays[0])
}

func deadReplicas(t *testing.T, s Subject) {
	renew(t, s.Store, replicaA, false)
	dead := publish(t, s.Store, route(replicaA, "1"))
	s.Expire()
	renew(t, s.Store, replicaB, false)
	live := publish(t, s.Store, route(replicaB, "1"))
	wantRoutes(t, s.Store, live...)
	if got, err := s.Store.Replicas(t.Context()); err != nil || len(got) != 1 || got[0] != replicaB {
		t.Errorf("got %v, %v, want only the one that lives", got, err)
	}
	// Not dead after all: it learns that it has to publish again.
	renew(t, s.Store, replicaA, false)
	publish(t, s.Store, dead...)
	wantRoutes(t, s.Store, live[0], dead[0])
}

func leaving(t *testing.T, s Subject) {
	renew(t, s.Store, replicaA, false)
	renew(t, s.Store, replicaB, false)
	publish(t, s.Store, route(replicaA, "1"), route(replicaA, "2"))
	stays := publish(t, s.Store, route(replicaB, "1"))
	if err := s.Store.Leave(t.Context(), replicaA); err != nil {
		t.Fatal(err)
	}
	wantRoutes(t, s.Store, stays...)
	if got, err := s.Store.Replicas(t.Context()); err != nil || len(got) != 1 || got[0] != replicaB {
		t.Errorf("got %v, %v, want only the one that stayed", got, err)
	}
}

func flushIsNoticed(t *testing.T, s Subject) {
	renew(t, s.Store, replicaA, false)
	routes := publish(t, s.Store, route(replicaA, "1"))
	s.Flush()
	wantRoutes(t, s.Store)
	renew(t, s.Store, replicaA, false)
	publish(t, s.Store, routes...)
	wantRoutes(t, s.Store, routes...)
	renew(t, s.Store, replicaA, true)
}

func announcements(t *testing.T, s Subject) {
	ctx, stop := context.WithCancel(t.Context())
	heard, ended := make(chan relay.Route, 10_000), make(chan error, 1)
	go func() { ended <- s.Store.Subscribe(ctx, func(r relay.Route) { heard <- r }) }()
	renew(t, s.Store, replicaB, false)
	published := publishUntilHeard(t, s.Store, heard)
	// A route that is only kept alive is not announced.
	publish(t, s.Store, published...)
	last := publish(t, s.Store, route(replicaB, "last"))[0]
	for epoch := uint64(0); epoch < last.Epoch; {
		got := <-heard
		if got != last && !slices.Contains(published, got) || got.Epoch <= epoch {
			t.Errorf("got %v announced after epoch %d, want each new route once and in order", got, epoch)
		}
		epoch = got.Epoch
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("subscription: got %v, want nil", err)
	}
}

// publishUntilHeard publishes routes until one is heard, because a subscription begins soon and not
// at once. Received routes stay in the channel.
func publishUntilHeard(t *testing.T, s relay.Store, heard chan relay.Route) (published []relay.Route) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for id := 0; len(heard) == 0; id++ {
		published = append(published, publish(t, s, route(replicaB, strconv.Itoa(id)))...)
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("nothing was announced")
		}
	}
	return published
}

func nothingAsked(t *testing.T, s Subject) {
	if err := s.Store.Withdraw(t.Context(), nil); err != nil {
		t.Errorf("withdraw nothing: %v", err)
	}
	if epochs, err := s.Store.Publish(t.Context(), nil); err != nil || len(epochs) != 0 {
		t.Errorf("publish nothing: got %v, %v", epochs, err)
	}
	if replicas, err := s.Store.Replicas(t.Context()); err != nil || len(replicas) != 0 {
		t.Errorf("replicas: got %v, %v, want none", replicas, err)
	}
}
