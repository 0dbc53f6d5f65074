// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestPlansFollowTheHeldConfiguration plans a service whose own configuration is not the one that a
// rollout holds it at. Digest, what its agent must be able to do, and problems belong to the held
// one. While the store has not decided about its values, the service is withheld.
func TestPlansFollowTheHeldConfiguration(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	v.Resolved(t.Context(), app, good("one"), nil)
	missing := &catalog.Problem{Message: "missing"}
	put := func(held *catalog.HeldConfig, config string, staged *catalog.StagedConfig) plan.Entry {
		t.Helper()
		s := service("app", "one", app)
		s.ConfigName, s.ConfigDigest, s.ConfigWaits, s.ConfigProblem, s.HeldConfig = "own", "own digest", true, missing, held
		s.Spec.Config = &catalog.Config{Restart: true}
		admission := catalog.Admission{
			ServiceUID: s.UID, Service: s.Name, Config: config, Staged: staged, Spec: s.Spec.Staged(),
			Content: []catalog.HeldSource{{Source: app.Normal(), Snapshot: *good("one").Snapshot}},
		}
		l.add(catalog.Changes{
			Services: []*catalog.Service{s}, FleetChanges: catalog.FleetChanges{Admissions: []catalog.Admission{admission}},
		})
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		current, _ := v.Plan("one")
		entry, ok := current.Entry("app")
		if !ok {
			t.Fatal("the plan does not have the service")
		}
		return entry
	}
	staged := &catalog.StagedConfig{Name: "held"}
	entry := put(&catalog.HeldConfig{Name: "held", Digest: "held digest"}, "held", staged)
	if entry.ConfigDigest != "held digest" || len(entry.Bundles) != 1 || len(entry.Requires) != 0 {
		t.Errorf("got %+v, want the held configuration", entry)
	}
	own := service("app", "one", app)
	own.Spec.Config = &catalog.Config{Restart: true}
	if planned := (fleet.Rollouts{View: v}).PlannedSpec(own); planned.Config != nil {
		t.Errorf("got %+v, want that the held configuration restarts nothing", planned.Config)
	}
	if entry := put(&catalog.HeldConfig{Name: "held", Digest: "held digest", Waits: true}, "held", staged); len(entry.Bundles) != 0 {
		t.Errorf("got %+v, want a service that waits for a value of the held configuration", entry)
	}
	for when, held := range map[string]*catalog.HeldConfig{"another one": {Name: "other", Digest: "other digest"}, "none": nil} {
		if entry := put(held, "held", staged); len(entry.Bundles) != 0 || entry.ConfigDigest != "" {
			t.Errorf("%s is decided: got %+v, want a service that is withheld", when, entry)
		}
	}
	if entry := put(&catalog.HeldConfig{Name: catalog.NoConfig}, catalog.NoConfig, nil); entry.ConfigDigest != "" || len(entry.Bundles) != 1 {
		t.Errorf("got %+v, want a service without a configuration", entry)
	}
	if entry := put(nil, "own", &catalog.StagedConfig{Name: "own"}); entry.ConfigDigest != "own digest" || len(entry.Bundles) != 0 {
		t.Errorf("got %+v, want the service's own configuration, which waits", entry)
	}
}
