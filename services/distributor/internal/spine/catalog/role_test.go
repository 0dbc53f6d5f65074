// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func TestRolesAreChecked(t *testing.T) {
	t.Parallel()
	good := catalog.Permissible{Verbs: []string{"get", "*"}, Resources: []string{"services", "services/plan"}}
	for name, test := range map[string]struct {
		role catalog.Role
		want string // "" for none
	}{
		"fine":             {catalog.Role{Spec: catalog.RoleSpec{Permissions: []catalog.Permissible{good}}}, ""},
		"a group alone":    {catalog.Role{Spec: catalog.RoleSpec{ClusterRole: catalog.RoleViewer}}, ""},
		"nothing":          {catalog.Role{}, "spec.permissions"},
		"no verbs":         {catalog.Role{Spec: catalog.RoleSpec{Permissions: []catalog.Permissible{{Resources: []string{"services"}}}}}, "spec.permissions[0].verbs"},
		"a verb":           {catalog.Role{Spec: catalog.RoleSpec{Permissions: []catalog.Permissible{{Verbs: []string{"gt"}, Resources: []string{"services"}}}}}, "spec.permissions[0].verbs[0]"},
		"a resource":       {catalog.Role{Spec: catalog.RoleSpec{Permissions: []catalog.Permissible{good, {Verbs: []string{"get"}, Resources: []string{"service"}}}}}, "spec.permissions[1].resources[0]"},
		"no pair":          {catalog.Role{Spec: catalog.RoleSpec{Permissions: []catalog.Permissible{{Verbs: []string{"sync"}, Resources: []string{"users"}}}}}, "spec.permissions[0]"},
		"a role elsewhere": {catalog.Role{Spec: catalog.RoleSpec{Permissions: []catalog.Permissible{good}, ClusterRole: "root"}}, "spec.cluster_role"},
		"too many":         {catalog.Role{Spec: catalog.RoleSpec{Permissions: slices.Repeat([]catalog.Permissible{good}, 65)}}, "spec.permissions"},
		"a built-in name":  {catalog.Role{Metadata: catalog.Metadata{Name: "viewer"}, Spec: catalog.RoleSpec{Permissions: []catalog.Permissible{good}}}, "metadata.name"},
	} {
		if test.role.Name == "" {
			test.role.Name = "mine"
		}
		err := test.role.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want+": ")) {
			t.Errorf("%s: got %v, want an error about %q", name, err, test.want)
		}
	}
}

func TestVerbsOfUpdates(t *testing.T) {
	t.Parallel()
	stored := func() *catalog.Service {
		return &catalog.Service{Metadata: catalog.Metadata{Name: "app"}, Spec: catalog.ServiceSpec{
			Cluster: "one", Options: &syncpolicy.Options{Namespace: "shop"},
			Sources: []catalog.Source{{Repository: "a", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}, {Repository: "b"}},
		}}
	}
	pause := func(s *catalog.Service) { s.Spec.Options.Paused = true }
	until := func(s *catalog.Service) { s.Spec.Options.PausedUntil = time.Unix(1, 0) }
	confirm := func(s *catalog.Service) { s.Spec.Options.PruneConfirmation = "sha256:1" }
	back := func(s *catalog.Service) { s.Spec.Sources[0].Ref = catalog.Ref{Kind: catalog.RefCommit, Value: "c1"} }
	for name, test := range map[string]struct {
		changes []func(*catalog.Service)
		want    string
	}{
		"nothing":           {nil, "update"},
		"pause":             {[]func(*catalog.Service){pause}, "pause"},
		"an end":            {[]func(*catalog.Service){until}, "pause"},
		"pause, with end":   {[]func(*catalog.Service){pause, until}, "pause"},
		"an end and a ref":  {[]func(*catalog.Service){until, back}, "update"},
		"confirm":           {[]func(*catalog.Service){confirm}, "confirm"},
		"both":              {[]func(*catalog.Service){pause, confirm}, "pause confirm"},
		"another ref":       {[]func(*catalog.Service){back}, "update"},
		"all three":         {[]func(*catalog.Service){pause, confirm, back}, "update"},
		"a namespace":       {[]func(*catalog.Service){pause, func(s *catalog.Service) { s.Spec.Options.Namespace = "web" }}, "update"},
		"a repository":      {[]func(*catalog.Service){back, func(s *catalog.Service) { s.Spec.Sources[1].Repository = "c" }}, "update"},
		"a folder":          {[]func(*catalog.Service){pause, func(s *catalog.Service) { s.Spec.Sources[1].Path = "x" }}, "update"},
		"a source less":     {[]func(*catalog.Service){func(s *catalog.Service) { s.Spec.Sources = s.Spec.Sources[:1] }}, "update"},
		"a label":           {[]func(*catalog.Service){pause, func(s *catalog.Service) { s.Labels = map[string]string{"a": "b"} }}, "update"},
		"a configuration":   {[]func(*catalog.Service){pause, func(s *catalog.Service) { s.Spec.Config = &catalog.Config{Values: map[string]string{"A": "b"}} }}, "update"},
		"a dry run":         {[]func(*catalog.Service){func(s *catalog.Service) { s.Spec.Options.DryRun = true }}, "update"},
		"pruning turned on": {[]func(*catalog.Service){confirm, func(s *catalog.Service) { s.Spec.Options.Prune = new(true) }}, "update"},
	} {
		next := stored()
		for _, change := range test.changes {
			change(next)
		}
		if got := strings.Join(catalog.VerbsOf(stored(), next), " "); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if got := catalog.VerbsOf(&catalog.User{}, &catalog.User{}); !slices.Equal(got, []string{"update"}) {
		t.Errorf("of a user: got %v, want update", got)
	}
}
