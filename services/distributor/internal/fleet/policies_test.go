// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// TestSecPolicyEditsConcernWhatTheyCover edits a policy of a project with many services: only
// services that it covered or will cover are planned again, and none if it covers the same ones.
func TestSecPolicyEditsConcernWhatTheyCover(t *testing.T) {
	t.Parallel()
	hub, l := fanout.NewHub[catalog.Key](0), &log{}
	view := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Plans: fanout.NewHub[string](0), Objects: hub,
		PollInterval: time.Second, AtOnce: fleet.AtOnce{Pairs: 2, Units: 1 << 20},
	})
	cluster := &catalog.Cluster{Metadata: catalog.Metadata{Name: "one", UID: "uid-one", Labels: map[string]string{"tier": "a"}}}
	var services []*catalog.Service
	for _, name := range []string{"shop", "web", "worker"} {
		service := &catalog.Service{Metadata: catalog.Metadata{Name: name + "@one", UID: "uid-" + name}}
		service.Spec = catalog.ServiceSpec{Cluster: "one", Sources: []catalog.Source{{Repository: "demo", Path: name}}, Options: &syncpolicy.Options{}}
		services = append(services, service)
	}
	l.add(catalog.Changes{Clusters: []*catalog.Cluster{cluster}, Services: services})
	if err := view.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	announced := hub.WatchAll()
	defer announced.Close()
	policy := catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves", UID: "uid-waves", CreatedAt: time.Unix(1, 0)}}
	for _, step := range []struct {
		name    string
		change  func(p *catalog.RolloutPolicy)
		isGone  bool
		concern []string
	}{
		{name: "created", change: func(p *catalog.RolloutPolicy) { p.Spec.Services = []string{"shop"} }, concern: []string{"shop@one"}},
		{name: "other waves", change: func(p *catalog.RolloutPolicy) { p.Spec.Strategy.Waves = []rollout.Wave{{Name: "canary"}} }},
		{name: "another pattern", change: func(p *catalog.RolloutPolicy) { p.Spec.Services = []string{"w*"} }, concern: []string{"shop@one", "web@one", "worker@one"}},
		{name: "a label that the cluster has", change: func(p *catalog.RolloutPolicy) { p.Spec.ClusterLabels = map[string]string{"tier": "a"} }, concern: []string{"web@one", "worker@one"}},
		{name: "one that it has not", change: func(p *catalog.RolloutPolicy) { p.Spec.ClusterLabels = map[string]string{"tier": "b"} }, concern: []string{"web@one", "worker@one"}},
		{name: "deleted", isGone: true},
	} {
		changes := catalog.Changes{}
		if step.isGone {
			changes.Deleted = []catalog.Tombstone{{Key: policy.Key(), UID: policy.UID}}
		} else {
			step.change(&policy)
			next := policy
			changes.Plain = []catalog.Plain{&next}
		}
		l.add(changes)
		if err := view.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		keys, _ := announced.Take()
		var concern []string
		for _, key := range keys {
			if key.Kind == catalog.KindService {
				concern = append(concern, key.Name)
			}
		}
		if slices.Sort(concern); !slices.Equal(concern, step.concern) {
			t.Errorf("%s: %q are planned again, want %q", step.name, concern, step.concern)
		}
	}
}

// TestPoliciesThatCoverTooMuch counts the services of two policies, again after a minute.
func TestPoliciesThatCoverTooMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newDerivedView(&log{}, fleet.AtOnce{})
		policy := func(name string, services ...string) *catalog.RolloutPolicy {
			return &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: name, UID: "uid-" + name}, Spec: catalog.RolloutPolicySpec{Services: services}}
		}
		changes := catalog.Changes{Clusters: []*catalog.Cluster{cluster("one")}, Plain: []catalog.Plain{policy("all", "w*"), policy("shop", "shop")}}
		for _, name := range []string{"shop@one", "web@one", "worker@one"} {
			changes.Services = append(changes.Services, service(name, "one", app))
		}
		v.add(t, changes)
		if got := fleet.NewSizesOf(v.View, 2).TooLarge(); len(got) != 0 {
			t.Errorf("got %v, want that two policies with two and one of three services are not too large", got)
		}
		sizes := fleet.NewSizesOf(v.View, 1)
		want := map[string]int{"uid-all": 2}
		if got := sizes.TooLarge(); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		v.add(t, catalog.Changes{Services: []*catalog.Service{service("wiki@one", "one", app)}})
		if got := sizes.TooLarge(); !maps.Equal(got, want) {
			t.Errorf("got %v at once, want %v as before", got, want)
		}
		time.Sleep(time.Minute)
		if got := sizes.TooLarge(); got["uid-all"] != 3 {
			t.Errorf("got %v after a minute, want three services", got)
		}
	})
}
