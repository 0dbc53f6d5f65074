// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package clusterprofile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/cli/internal/clusterprofile"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

var params = clusterprofile.Params{Manager: "acme", TunnelURL: "https://leat.example.com/", CAPEM: []byte("authority")}

func cluster(name string, change func(*fleetv1.Cluster)) *fleetv1.Cluster {
	c := &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: name}, Status: &fleetv1.ClusterStatus{Enrolled: true, Connected: true}}
	if change != nil {
		change(c)
	}
	return c
}

func profile(t rapid.TB, c *fleetv1.Cluster) *clusterprofile.Profile {
	t.Helper()
	p, ok := params.Of(c)
	if !ok {
		t.Fatalf("%s has no profile", c.GetMetadata().GetName())
	}
	return p
}

func TestOf(t *testing.T) {
	t.Parallel()
	p := profile(t, cluster("edge--1", func(c *fleetv1.Cluster) {
		c.Metadata.Project = "shop"
		c.Metadata.Labels = map[string]string{
			"stage": "prod", "example.com/tier": "1", "kueue.x-k8s.io/managed": "no", "kubernetes.io/arch": "no", "x-k8s.io/cluster-manager": "another",
		}
		c.Status.Report = &distributorv1.ClusterReport{
			KubernetesVersion: strings.Repeat("v", 100), AgentVersion: strings.Repeat("é", 2000), Provider: "aks",
		}
	}))
	if got, want := p.Name+" "+p.Spec.DisplayName+" "+p.Spec.ClusterManager.Name, "shop--edge---1 shop/edge--1 acme"; got != want {
		t.Errorf("names: got %q, want %q", got, want)
	}
	if got, want := fmt.Sprint(p.Labels), "map[example.com/tier:1 stage:prod x-k8s.io/cluster-manager:acme]"; got != want {
		t.Errorf("labels: got %s, want %s", got, want)
	}
	access := p.Status.AccessProviders[0]
	if got, want := access.Name+" "+access.Cluster.Server, "leat https://leat.example.com/clusters/shop.edge--1"; got != want || string(access.Cluster.CertificateAuthorityData) != "authority" {
		t.Errorf("access: got %q and %q, want %q", got, access.Cluster.CertificateAuthorityData, want)
	}
	// What an agent has sent stays within the bounds of the API.
	if got := len(p.Status.Version.Kubernetes); got != 64 {
		t.Errorf("version: got %d bytes, want 64", got)
	}
	for _, property := range p.Status.Properties {
		if len(property.Value) == 0 || len(property.Value) > 1024 || !strings.Contains("leat.dev/agent-version leat.dev/project leat.dev/provider", property.Name) {
			t.Errorf("property %s has %d bytes", property.Name, len(property.Value))
		}
	}
	if len(p.Status.Properties) != 3 {
		t.Errorf("got %d properties, want three", len(p.Status.Properties))
	}
	if _, ok := params.Of(cluster(strings.Repeat("a", 63), func(c *fleetv1.Cluster) { c.Metadata.Project = "shop" })); ok {
		t.Error("a cluster has a profile whose name is too long")
	}
}

func TestConditionsHaveTheTimeOfTheirChange(t *testing.T) {
	t.Parallel()
	monday := time.Date(2026, time.November, 30, 8, 0, 0, 500, time.UTC)
	state := func(change clusterprofile.Change) string {
		var all []string
		for _, p := range change.Apply {
			condition := p.Status.Conditions[0]
			all = append(all, fmt.Sprint(condition.Type, condition.Status, condition.Reason, condition.LastTransitionTime.UTC().Format(time.TimeOnly)))
		}
		return strings.Join(all, " ")
	}
	look := func(existing []*clusterprofile.Profile, at time.Duration, change func(*fleetv1.Cluster)) clusterprofile.Change {
		return params.Compare(existing, []*clusterprofile.Profile{profile(t, cluster("berlin", change))}, monday.Add(at))
	}
	first := look(nil, 0, nil)
	if got, want := state(first), "ControlPlaneHealthyTrueAgentConnected08:00:00"; got != want {
		t.Errorf("new: got %q, want %q", got, want)
	}
	if got := state(look(first.Apply, time.Hour, nil)); got != "" {
		t.Errorf("the same an hour later: got %q, want nothing", got)
	}
	silent := look(first.Apply, 2*time.Hour, func(c *fleetv1.Cluster) { c.Status.Connected = false })
	if got, want := state(silent), "ControlPlaneHealthyUnknownAgentSilent10:00:00"; got != want {
		t.Errorf("silent: got %q, want %q", got, want)
	}
	forgotten := look(silent.Apply, 3*time.Hour, func(c *fleetv1.Cluster) { c.Status = &fleetv1.ClusterStatus{} })
	if got, want := state(forgotten), "ControlPlaneHealthyUnknownNotEnrolled10:00:00"; got != want {
		t.Errorf("revoked: got %q, want %q: its status is the same", got, want)
	}
}

// TestCompareConverges tries fleets and namespaces of every kind: carried out once, a change leaves nothing to do, profiles of other
// managers are as they were, and no other one is of a cluster that is gone.
func TestCompareConverges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), rapid.ID[string])
		stage := rapid.SampledFrom([]string{"prod", "test"})
		now := time.Unix(1_800_000_000, 0)
		fleet := func() (all []*clusterprofile.Profile) {
			for _, name := range names.Draw(t, "clusters") {
				all = append(all, profile(t, cluster(name, func(c *fleetv1.Cluster) {
					c.Metadata.Labels = map[string]string{"stage": stage.Draw(t, "stage")}
					c.Status.Connected = rapid.Bool().Draw(t, "connected")
				})))
			}
			return all
		}
		has := map[string]*clusterprofile.Profile{}
		for _, p := range params.Compare(nil, fleet(), now).Apply {
			if rapid.Bool().Draw(t, "foreign") {
				p.Spec.ClusterManager.Name = "another"
			}
			p.Labels["somebody"] = "else"
			has[p.Name] = p
		}
		wanted := fleet()
		existing := func() (all []*clusterprofile.Profile) {
			for _, p := range has {
				all = append(all, p)
			}
			return all
		}
		change := params.Compare(existing(), wanted, now.Add(time.Hour))
		for _, p := range slices.Concat(change.Apply, change.Remove) {
			if found := has[p.Name]; found != nil && found.Spec.ClusterManager.Name != "acme" {
				t.Fatalf("changes %s of another manager", p.Name)
			}
		}
		for _, p := range change.Remove {
			delete(has, p.Name)
		}
		for _, p := range change.Apply {
			has[p.Name] = p
		}
		again := params.Compare(existing(), wanted, now.Add(2*time.Hour))
		if len(again.Apply)+len(again.Remove) > 0 || !slices.Equal(again.Foreign, change.Foreign) {
			t.Fatalf("a second look: %+v", again)
		}
		for name, p := range has {
			isWanted := slices.ContainsFunc(wanted, func(w *clusterprofile.Profile) bool { return w.Name == name })
			if p.Spec.ClusterManager.Name == "acme" && !isWanted {
				t.Fatalf("%s is still there", name)
			}
		}
	})
}

func TestGuard(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		remove, managed int
		refused         bool
	}{{0, 0, false}, {3, 3, false}, {4, 4, true}, {4, 8, false}, {5, 9, true}, {100, 10_000, false}} {
		change := clusterprofile.Change{Remove: make([]*clusterprofile.Profile, test.remove), Managed: test.managed}
		err := change.Guard()
		removal, _ := errors.AsType[*clusterprofile.RemovalError](err)
		if (removal != nil) != test.refused {
			t.Errorf("%d of %d: got %v", test.remove, test.managed, err)
		}
	}
}

// TestSubSecondTimesAreTheSame has an API server keep seconds only.
func TestSubSecondTimesAreTheSame(t *testing.T) {
	t.Parallel()
	wanted := []*clusterprofile.Profile{profile(t, cluster("berlin", nil))}
	first := params.Compare(nil, wanted, time.Now()).Apply
	for i := range first[0].Status.Conditions {
		condition := &first[0].Status.Conditions[i]
		condition.LastTransitionTime = metav1.Unix(condition.LastTransitionTime.Unix(), 0)
	}
	if change := params.Compare(first, wanted, time.Now()); len(change.Apply) > 0 {
		t.Errorf("got %+v", change.Apply[0].Status)
	}
}
