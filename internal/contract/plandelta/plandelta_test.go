// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plandelta_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/plandelta"
)

// drawPlan draws from few values, so that plans share services.
func drawPlan(t *rapid.T) *distributorv1.Plan {
	draw := func(label string) string { return rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, label) }
	p := &distributorv1.Plan{Cluster: "mill", Version: fmt.Sprint("v", rapid.IntRange(0, 9).Draw(t, "version"))}
	for i := range 5 {
		if rapid.Bool().Draw(t, "there") {
			s := &distributorv1.PlanService{
				Name: fmt.Sprint("s", i), Uid: draw("uid"), SpecDigest: draw("spec"), ConfigDigest: draw("config"), SyncRequest: draw("sync"),
			}
			for range rapid.IntRange(0, 2).Draw(t, "bundles") {
				s.Bundles = append(s.Bundles, &distributorv1.PlanBundle{Digest: draw("digest"), Commit: draw("commit")})
			}
			p.Services = append(p.Services, s)
		}
	}
	if rapid.Bool().Draw(t, "settings") {
		p.Settings = &typev1.AgentSettings{Workers: rapid.Int32Range(0, 2).Draw(t, "workers")}
	}
	if rapid.Bool().Draw(t, "facts") {
		p.Facts = &typev1.ClusterFacts{Labels: map[string]string{"region": draw("region")}}
	}
	if rapid.Bool().Draw(t, "held") {
		p.RemovalsHeldSince = timestamppb.Now()
	}
	return p
}

// between returns a delta that does not omit equal services: every service of the new plan, and the
// names of the removed ones.
func between(from, to *distributorv1.Plan) *distributorv1.PlanDelta {
	d := &distributorv1.PlanDelta{
		FromVersion: from.GetVersion(), ToVersion: to.GetVersion(), Services: to.GetServices(),
		Time: timestamppb.Now(), Sum: plandelta.Sum(to.GetServices()...),
		Settings: to.GetSettings(), Facts: to.GetFacts(), RemovalsHeldSince: to.GetRemovalsHeldSince(),
	}
	for _, s := range from.GetServices() {
		if !slices.ContainsFunc(to.GetServices(), func(o *distributorv1.PlanService) bool { return o.GetName() == s.GetName() }) {
			d.Removed = append(d.Removed, s.GetName())
		}
	}
	return d
}

// thinned removes services from the delta that the plan already has.
func thinned(t *rapid.T, from *distributorv1.Plan, d *distributorv1.PlanDelta) *distributorv1.PlanDelta {
	d = proto.CloneOf(d)
	d.Services = slices.DeleteFunc(d.Services, func(s *distributorv1.PlanService) bool {
		return slices.ContainsFunc(from.GetServices(), func(o *distributorv1.PlanService) bool { return proto.Equal(o, s) }) &&
			rapid.Bool().Draw(t, "left out")
	})
	return d
}

func TestApply(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawPlan(t), drawPlan(t)
		delta := thinned(t, from, between(from, to))
		before := proto.CloneOf(from)
		got, err := plandelta.Apply(from, delta)
		if err != nil {
			t.Fatal(err)
		}
		to.Time = delta.GetTime()
		if diff := cmp.Diff(to, got, protocmp.Transform()); diff != "" {
			t.Fatalf("new plan (-want +got):\n%s", diff)
		}
		if !proto.Equal(before, from) {
			t.Fatal("the old plan was changed")
		}
	})
}

// TestApplyRefuses applies deltas that do not fit, each for one reason.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	service := func(name, uid string) *distributorv1.PlanService {
		return &distributorv1.PlanService{Name: name, Uid: uid}
	}
	plan := &distributorv1.Plan{Version: "v1", Services: []*distributorv1.PlanService{service("a", "1"), service("b", "1")}}
	good := func() *distributorv1.PlanDelta {
		to := &distributorv1.Plan{Version: "v2", Services: []*distributorv1.PlanService{service("b", "2"), service("c", "1")}}
		return between(plan, to)
	}
	if _, err := plandelta.Apply(plan, good()); err != nil {
		t.Fatalf("the delta as it should be: %v", err)
	}
	for name, spoil := range map[string]func(d *distributorv1.PlanDelta){
		"another version":  func(d *distributorv1.PlanDelta) { d.FromVersion = "v0" },
		"no version":       func(d *distributorv1.PlanDelta) { d.ToVersion = "" },
		"no sum":           func(d *distributorv1.PlanDelta) { d.Sum = "" },
		"another uid":      func(d *distributorv1.PlanDelta) { d.Services[0].Uid = "3" },
		"one missing":      func(d *distributorv1.PlanDelta) { d.Services = d.Services[1:] },
		"one twice":        func(d *distributorv1.PlanDelta) { d.Services = append(d.Services, d.Services[1]) },
		"out of order":     func(d *distributorv1.PlanDelta) { slices.Reverse(d.Services) },
		"not removed":      func(d *distributorv1.PlanDelta) { d.Removed = nil },
		"removed twice":    func(d *distributorv1.PlanDelta) { d.Removed = append(d.Removed, "a") },
		"removed stranger": func(d *distributorv1.PlanDelta) { d.Removed = append(d.Removed, "x") },
	} {
		d := good()
		spoil(d)
		if got, err := plandelta.Apply(plan, d); !errors.Is(err, plandelta.ErrUnfit) || got != nil {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, plandelta.ErrUnfit)
		}
	}
	if _, err := plandelta.Apply(&distributorv1.Plan{}, &distributorv1.PlanDelta{ToVersion: "v", Sum: plandelta.Sum()}); !errors.Is(err, plandelta.ErrUnfit) {
		t.Errorf("no plan at all: got %v, want %v", err, plandelta.ErrUnfit)
	}
}

// TestSum compares sums with a model of the differences that they must show.
func TestSum(t *testing.T) {
	t.Parallel()
	model := func(p *distributorv1.Plan) string {
		text := ""
		for _, s := range p.GetServices() {
			text += fmt.Sprintf("%q %q %q %q %q [", s.GetName(), s.GetUid(), s.GetSpecDigest(), s.GetConfigDigest(), s.GetSyncRequest())
			for _, b := range s.GetBundles() {
				text += fmt.Sprintf("%q ", b.GetDigest())
			}
			text += "]"
		}
		return text
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPlan(t), drawPlan(t)
		same := model(a) == model(b)
		if got := plandelta.Sum(a.GetServices()...) == plandelta.Sum(b.GetServices()...); got != same {
			t.Fatalf("same sum: got %v, want %v for %v and %v", got, same, a, b)
		}
		shuffled := slices.Clone(a.GetServices())
		slices.Reverse(shuffled)
		if plandelta.Sum(a.GetServices()...) != plandelta.Sum(shuffled...) {
			t.Fatal("the order of services changed the sum")
		}
	})
}

// TestSumIsFixed pins sums, because agents and hubs of different releases must agree: the sum is a
// part of the protocol.
func TestSumIsFixed(t *testing.T) {
	t.Parallel()
	const want = "sha256:3684011dcbb38174c608e252278f3dec6bb5ce9906a21712572faffb979ef81c"
	got := plandelta.Sum(&distributorv1.PlanService{
		Name: "app", Uid: "u", SpecDigest: "sha256:1", ConfigDigest: "sha256:2", SyncRequest: "now",
		Bundles: []*distributorv1.PlanBundle{{Digest: "sha256:3", Commit: "c"}},
	})
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
