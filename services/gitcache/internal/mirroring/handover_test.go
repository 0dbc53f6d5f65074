// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// TestRebalance adds a replica that holds the same mirrors: within some minutes everything is where
// rendezvous hashing wants it, no two fetch at once, and no repository stays without an owner for
// longer than it takes to hand it over.
func TestRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var defs []mirror.Definition
		loaded := map[string]mirror.Content{}
		for i := range 20 {
			def := definition(fmt.Sprint("demo-", i))
			defs = append(defs, def)
			loaded[def.UID] = mirror.Content{
				Refs: mirror.NewRefs([]mirror.Ref{{Name: "refs/heads/main", Object: "c1", Commit: "c1"}}), FreshAt: time.Now(),
			}
		}
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		a, stopA := w.replica(t, "a", loaded, defs...)
		defer stopA()
		time.Sleep(time.Minute)
		b, stopB := w.replica(t, "b", loaded, defs...)
		defer stopB()
		time.Sleep(2 * time.Minute)
		moved := 0
		for _, def := range defs {
			first := rendezvous.Order(def.UID, []string{"http://a", "http://b"})[0]
			url, err := get(t, a, def.Name).Owner(t.Context())
			if err != nil || url != first {
				t.Errorf("%s: got owner %q (%v), want %q", def.Name, url, err, first)
			}
			if first == "http://b" {
				moved++
				if got := get(t, b, def.Name).Epoch(); got != 2 {
					t.Errorf("%s: got epoch %d at the heir, want 2: the one after the first owner's", def.Name, got)
				}
			} else if got := get(t, a, def.Name).Epoch(); got != 1 {
				t.Errorf("%s: got epoch %d, want the first owner's, untouched", def.Name, got)
			}
		}
		if moved == 0 || moved == len(defs) {
			t.Errorf("got %d of %d repositories moved, want some", moved, len(defs))
		}
	})
}

// TestColdHeirGetsNothing adds a replica whose mirrors are behind and stay so, because its disk is
// full: nothing is handed over to it.
func TestColdHeirGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var defs []mirror.Definition
		loaded := map[string]mirror.Content{}
		for i := range 10 {
			def := definition(fmt.Sprint("demo-", i))
			defs = append(defs, def)
			loaded[def.UID] = mirror.Content{FreshAt: time.Now()} // empty, unlike the upstream
		}
		a, stopA := w.replica(t, "a", nil, defs...)
		defer stopA()
		time.Sleep(time.Minute)
		w.full = true
		b, stopB := w.replica(t, "b", loaded, defs...)
		defer stopB()
		time.Sleep(10 * time.Minute)
		if owned(a) != 10 || owned(b) != 0 {
			t.Errorf("got %d and %d owned, want all to stay", owned(a), owned(b))
		}
	})
}

// TestShutdownLeavesToSuccessor stops an owner of three replicas: each repository goes to the next
// in order, at once.
func TestShutdownLeavesToSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var defs []mirror.Definition
		for i := range 20 {
			defs = append(defs, definition(fmt.Sprint("demo-", i)))
		}
		sets, stops := map[string]*mirroring.Set{}, map[string]func(){}
		for _, name := range []string{"a", "b", "c"} {
			sets[name], stops[name] = w.replica(t, name, nil, defs...)
		}
		time.Sleep(time.Minute)
		before := owned(sets["a"])
		stops["a"]()
		if got := owned(sets["b"]) + owned(sets["c"]); before == 0 || got != 20 {
			t.Errorf("got %d owned when the first replica (%d) has left, want all 20", got, before)
		}
		for _, def := range defs {
			// The lease store is asked, not a replica: what those remember of an owner may be half
			// a second old.
			next := rendezvous.Order(def.UID, []string{"http://b", "http://c"})[0]
			if holder, err := w.leases.Holder(t.Context(), def.UID); err != nil || holder.Owner != next {
				t.Errorf("%s: got holder %q (%v), want %q", def.Name, holder.Owner, err, next)
			}
		}
		stops["b"]()
		stops["c"]()
	})
}
