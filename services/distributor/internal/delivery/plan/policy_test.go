// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// simple is the plan of one service that uses nothing but what there was in the first release.
func simple(change func(*catalog.ServiceSpec)) *plan.Plan {
	spec := catalog.ServiceSpec{Cluster: "one", Sources: []catalog.Source{{Repository: "r", Path: "x"}}}
	change(&spec)
	service := &catalog.Service{Metadata: catalog.Metadata{Name: "a", UID: "u"}, Spec: spec}
	return plan.Compute("one", plan.ClusterPart{}, []plan.Input{{Service: service, Snapshots: []*catalog.Snapshot{{Digest: digest.FromBytes([]byte("x"))}}}}, plan.Cause{})
}

// TestServicesWithoutAPolicyKeepTheirDigests pins what they had before there were policies and
// settings: an upgrade of the hub must not have every agent apply everything again.
func TestServicesWithoutAPolicyKeepTheirDigests(t *testing.T) {
	t.Parallel()
	const (
		version = "sha256:634e461de3d5abc343b1f750dc2117b5d37977e25b53381ef472cca11dbc0498"
		spec    = "sha256:6cfd4c7d4b6f735577fe8adfb7391b26f3a18d7e963635bfbe61fcdcb6e9c758"
	)
	for name, p := range map[string]*plan.Plan{
		"none":        simple(func(*catalog.ServiceSpec) {}),
		"empty":       simple(func(s *catalog.ServiceSpec) { s.Options = &syncpolicy.Options{} }),
		"no settings": simple(func(*catalog.ServiceSpec) {}).With(plan.ClusterPart{}, plan.Cause{}),
	} {
		if p.Version != version || p.Entries[0].SpecDigest != spec {
			t.Errorf("%s: got version %s and spec %s, want %s and %s", name, p.Version, p.Entries[0].SpecDigest, version, spec)
		}
	}
}

func TestPolicyDryRunAndSettingsCount(t *testing.T) {
	t.Parallel()
	plans := []*plan.Plan{
		simple(func(*catalog.ServiceSpec) {}),
		simple(func(s *catalog.ServiceSpec) { s.Options = &syncpolicy.Options{DryRun: true} }),
		simple(func(s *catalog.ServiceSpec) {
			s.Options = &syncpolicy.Options{Policy: syncpolicy.Policy{Recreate: true}}
		}),
		simple(func(s *catalog.ServiceSpec) {
			s.Options = &syncpolicy.Options{Policy: syncpolicy.Policy{Recreate: true}, DryRun: true}
		}),
	}
	specs, versions := map[string]bool{}, map[string]bool{}
	for _, p := range plans {
		specs[p.Entries[0].SpecDigest], versions[p.Version] = true, true
		changed := p.With(plan.ClusterPart{Settings: syncpolicy.AgentSettings{LockDown: true}}, plan.Cause{})
		specs[changed.Entries[0].SpecDigest], versions[changed.Version] = true, true
	}
	if len(specs) != len(plans) || len(versions) != 2*len(plans) {
		t.Errorf("got %d spec digests and %d versions, want %d and %d", len(specs), len(versions), len(plans), 2*len(plans))
	}
}

// TestEveryOptionCounts sets one field of the options after the other: agents apply a service again
// when its spec's digest changes, so an option that the digest forgets would have no effect. An end
// that has not come has none, so it does not count.
func TestEveryOptionCounts(t *testing.T) {
	t.Parallel()
	digests := map[string]string{simple(func(*catalog.ServiceSpec) {}).Entries[0].SpecDigest: "none"}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[syncpolicy.Options]()) {
		options := &syncpolicy.Options{}
		if field.Type == reflect.TypeFor[time.Time]() {
			options.PausedUntil = time.Unix(1, 0)
			if got := simple(func(s *catalog.ServiceSpec) { s.Options = options }).Entries[0].SpecDigest; digests[got] != "none" {
				t.Errorf("%s: got another digest for an end", field.Name)
			}
			continue
		}
		switch value := reflect.ValueOf(options).Elem().FieldByIndex(field.Index); value.Kind() {
		case reflect.String:
			value.SetString("other")
		case reflect.Bool:
			value.SetBool(true)
		case reflect.Pointer:
			value.Set(reflect.ValueOf(new(false)))
		case reflect.Struct:
			value.Set(reflect.ValueOf(syncpolicy.Policy{Recreate: true}))
		case reflect.Slice:
			value.Set(reflect.ValueOf([]renderstep.Step{{}}))
		default:
			value.SetInt(1)
		}
		got := simple(func(s *catalog.ServiceSpec) { s.Options = options }).Entries[0].SpecDigest
		if same, known := digests[got]; known {
			t.Errorf("%s: got the digest of %s", field.Name, same)
		}
		digests[got] = field.Name
	}
}

// TestSettingsKeepTheTimeOfTheirVersion comes back to settings that were there, and revises a plan
// that has some.
func TestSettingsKeepTheTimeOfTheirVersion(t *testing.T) {
	t.Parallel()
	strict := plan.ClusterPart{Settings: syncpolicy.AgentSettings{LockDown: true}}
	last := simple(func(*catalog.ServiceSpec) {}).With(strict, plan.Cause{Time: time.Unix(1, 0)})
	why := plan.Cause{Time: time.Unix(2, 0), Last: last}
	if got := plan.Revise(last, nil, nil, why).With(strict, why); got.Version != last.Version || !got.ComputedAt.Equal(time.Unix(1, 0)) {
		t.Errorf("got version %s of %s, want the last one's", got.Version, got.ComputedAt)
	}
	other := plan.Revise(last, nil, nil, why).With(plan.ClusterPart{}, why)
	if other.Version == last.Version || !other.ComputedAt.Equal(time.Unix(2, 0)) {
		t.Errorf("got version %s of %s, want a new one", other.Version, other.ComputedAt)
	}
}
