// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// TestLayersOfServices finds the sets that configurations may be made of: all of the own project,
// and sets of others that references lead to, also by way of another set.
func TestLayersOfServices(t *testing.T) {
	t.Parallel()
	set := func(name string, references map[string]string) *catalog.ConfigSet {
		return &catalog.ConfigSet{Metadata: catalog.Metadata{Name: name, UID: "uid-" + name}, Spec: catalog.ConfigSetSpec{Config: &catalog.Config{References: references}}}
	}
	service := func(name string, references map[string]string) *catalog.Service {
		s := &catalog.Service{Metadata: catalog.Metadata{Name: name, UID: "uid-" + name}}
		s.Spec = catalog.ServiceSpec{Cluster: "one", Options: &syncpolicy.Options{}, Config: &catalog.Config{References: references}}
		return s
	}
	l := &log{}
	view := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Plans: fanout.NewHub[string](0),
		Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second, AtOnce: fleet.AtOnce{Pairs: 2, Units: 1 << 20},
	})
	l.add(catalog.Changes{FleetChanges: catalog.FleetChanges{ConfigSets: []*catalog.ConfigSet{
		set("team.own", nil), set("base", map[string]string{"A": "hub://further/A"}), set("further", nil), set("unrelated", nil), set("other.secret", nil),
	}}})
	if err := view.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name       string
		references map[string]string
		want       []string
	}{
		{name: "no reference", want: []string{"uid-team.own"}},
		{name: "a set of another project", references: map[string]string{"B": "hub://default/base/A"}, want: []string{"uid-base", "uid-further", "uid-team.own"}},
	} {
		if got := (fleet.Rollouts{View: view}).Layers([]*catalog.Service{service("team.app@one", tc.references)}); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
