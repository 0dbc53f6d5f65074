// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var digests = cmp.AllowUnexported(digest.Digest{})

// TestReviseIsCompute goes from one set of services to another by what differs, and wants what all
// of them give.
func TestReviseIsCompute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawInputs(t), drawInputs(t)
		for i := range min(len(before), len(after)) {
			if rapid.Bool().Draw(t, "same") {
				after[i] = before[i]
			}
		}
		first, settings := plan.Cause{Time: time.Unix(1, 0), Trigger: &catalog.Trigger{Traceparent: "first"}}, drawPart(t)
		last := plan.Compute("one", settings, before, first)
		why := plan.Cause{Time: time.Unix(2, 0), Trigger: &catalog.Trigger{Traceparent: "second"}, Last: last}
		want := plan.Compute("one", settings, after, why)
		var changed []plan.Input
		var gone []string
		for i, input := range after {
			if i >= len(before) || before[i].Service != input.Service || rapid.Bool().Draw(t, "named without need") {
				changed = append(changed, input)
			}
		}
		for _, input := range before[min(len(before), len(after)):] {
			gone = append(gone, input.Service.Name)
		}
		var unchanged []plan.Entry
		for _, entry := range last.Entries {
			unchanged = append(unchanged, *entry)
		}
		got := plan.Revise(last, changed, gone, plan.Cause{Time: why.Time, Trigger: why.Trigger})
		if diff := cmp.Diff(want, got, digests); diff != "" {
			t.Fatalf("revised plan (-want +got):\n%s", diff)
		}
		for i, entry := range last.Entries {
			if diff := cmp.Diff(unchanged[i], *entry, digests); diff != "" {
				t.Fatalf("the last plan was changed (-want +got):\n%s", diff)
			}
		}
	})
}

// TestAtIsCompute moves the commits of a plan, and wants what a plan of the moved snapshots is.
func TestAtIsCompute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inputs, commits := drawInputs(t), map[catalog.Source]string{}
		last := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{})
		before := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{})
		for _, input := range inputs {
			for i, source := range input.Service.Spec.Sources {
				if input.Snapshots[i] == nil {
					continue
				}
				if _, drawn := commits[source.Normal()]; !drawn {
					commits[source.Normal()] = small.Draw(t, "commit")
				}
				moved := *input.Snapshots[i]
				moved.Commit, moved.Version = commits[source.Normal()], "v"+commits[source.Normal()]
				input.Snapshots[i] = &moved
			}
		}
		want := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{})
		got := last.At(func(b plan.Bundle) (string, string) { return commits[b.Source], "v" + commits[b.Source] })
		if diff := cmp.Diff(want, got, digests); diff != "" {
			t.Fatalf("plan at other commits (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, last, digests); diff != "" {
			t.Fatalf("the last plan was changed (-want +got):\n%s", diff)
		}
	})
}

func TestEntryIsThePlans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for _, input := range drawInputs(t) {
			want, _ := plan.Compute("one", plan.ClusterPart{}, []plan.Input{input}, plan.Cause{}).Entry(input.Service.Name)
			if diff := cmp.Diff(want, input.Entry(), digests); diff != "" {
				t.Fatalf("entry (-want +got):\n%s", diff)
			}
		}
	})
}

func TestPoolChangesNoPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pool, shared := plan.NewPool(), []*plan.Plan{}
		for range rapid.IntRange(1, 5).Draw(t, "plans") {
			inputs := drawInputs(t)
			next := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{})
			if rapid.Bool().Draw(t, "renew") {
				pool.Renew(slices.Values(shared))
			}
			pool.Share(next, nil)
			shared = append(shared, next)
			if diff := cmp.Diff(plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{}), next, digests); diff != "" {
				t.Fatalf("shared plan (-want +got):\n%s", diff)
			}
		}
	})
}

// TestPoolComputesTheSame has clusters with services in common, of which some were changed since, and wants plans as
// without a pool.
func TestPoolComputesTheSame(t *testing.T) {
	t.Parallel()
	annotations := &syncpolicy.Limits{ClusterAnnotations: syncpolicy.AllowList{}}
	rapid.Check(t, func(t *rapid.T) {
		commons := []*catalog.Service{drawService(t, "a"), drawService(t, "b")}
		others := []*syncpolicy.Options{nil, drawService(t, "a").Spec.Options}
		snapshots := []*catalog.Snapshot{nil, {Digest: digest.FromBytes([]byte("1"))}, {Digest: digest.FromBytes([]byte("1")), Commit: "2"}}
		pool := plan.NewPool()
		for range rapid.IntRange(1, 8).Draw(t, "plans") {
			cluster := small.Draw(t, "cluster")
			service := rapid.SampledFrom(commons).Draw(t, "common").In(cluster, small.Draw(t, "uid"))
			input := plan.Input{
				Service: service, IsWithheld: rapid.Bool().Draw(t, "withheld"),
				Limits: rapid.SampledFrom([]*syncpolicy.Limits{nil, {}, annotations}).Draw(t, "limits"),
			}
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0:
				service.Spec.Options = rapid.SampledFrom(others).Draw(t, "options")
			case 1:
				service.Spec.Sources = slices.Clone(drawService(t, "c").Spec.Sources)
			case 2:
				service.ConfigDigest = small.Draw(t, "config")
			case 3:
				service.Spec.Config = &catalog.Config{Restart: true}
			}
			for range service.Spec.Sources {
				input.Snapshots = append(input.Snapshots, rapid.SampledFrom(snapshots).Draw(t, "snapshot"))
			}
			got := plan.Compute(cluster, plan.ClusterPart{}, []plan.Input{input}, plan.Cause{Pool: pool})
			pool.Share(got, nil)
			if diff := cmp.Diff(plan.Compute(cluster, plan.ClusterPart{}, []plan.Input{input}, plan.Cause{}), got, digests); diff != "" {
				t.Fatalf("plan with a pool (-without +with):\n%s", diff)
			}
		}
	})
}

// TestPoolShares wants the lists of two clusters' plans in one place, and a pool that forgets what
// went out of use.
func TestPoolShares(t *testing.T) {
	t.Parallel()
	compute := func(name, content string) *plan.Plan {
		service := &catalog.Service{Metadata: catalog.Metadata{Name: name}, Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "r"}}}}
		return plan.Compute("of "+name, plan.ClusterPart{}, []plan.Input{{Service: service, Snapshots: []*catalog.Snapshot{{Digest: digest.FromBytes([]byte(content))}}}}, plan.Cause{})
	}
	pool, a, b := plan.NewPool(), compute("a", "1"), compute("b", "1")
	pool.Share(a, nil)
	pool.Share(b, nil)
	if &a.Entries[0].Bundles[0] != &b.Entries[0].Bundles[0] {
		t.Error("equal lists of bundles are held twice")
	}
	for i := 0; !pool.Full(); i++ {
		pool.Share(compute("c", time.Duration(i).String()), nil)
	}
	pool.Renew(slices.Values([]*plan.Plan{a}))
	if pool.Full() {
		t.Error("the pool holds plans that are not used")
	}
	c := compute("c", "1")
	pool.Share(c, nil)
	if &a.Entries[0].Bundles[0] != &c.Entries[0].Bundles[0] {
		t.Error("the pool forgot a plan that is used")
	}
}
