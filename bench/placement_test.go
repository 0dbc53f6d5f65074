// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/bench/internal/edge"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

var (
	placementClusters = flag.Int("placement.clusters", 100, "clusters of BenchmarkPlacement in each of three groups, each with an agent in a process of its own")
	placementServers  = flag.Int("placement.servers", 4, "API servers that these agents share")
	placementRounds   = flag.Int("placement.rounds", 10, "definitions, and then rollouts, that BenchmarkPlacement measures")
)

const (
	// groupLabel is the label of a cluster with the group it belongs to.
	groupLabel = "group"
	// groups is how many groups of clusters there are, each of which is a wave.
	groups = 3
	// wavesService is the global service that is rolled out in waves.
	wavesService = "waves"
	// separator is between a cluster and a service in a namespace.
	separator = "--"
)

func groupName(i int) string { return fmt.Sprintf("group-%d", i) }

// BenchmarkPlacement measures how long a new definition takes until the clusters of a group have its objects, and how
// long a commit takes through three waves of a group each, without a soak. Everything is real, as in BenchmarkApplied.
func BenchmarkPlacement(b *testing.B) {
	h := &hub{repository: gittest.New(b).Repo(b, "apps")}
	h.repository.Commit(b, "main", map[string]string{
		"placed/" + probe + ".yaml":          configMap(probe, "0"),
		wavesService + "/" + probe + ".yaml": configMap(probe, "0"),
	})
	h.startServices(b, "sqlite://"+filepath.Join(b.TempDir(), "leat.db"), "")
	begun, seen := time.Now(), newSightings()
	admin := edge.Connect(b, h.distributor.url, edge.AdminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	startGroups(b, h, fleet, seen)
	applyAll(b, fleet, globalOf(wavesService, wavesService, &fleetv1.ClusterTarget{All: true}), wavesPolicy())
	seen.await(b, wavesService+" 0", groups**placementClusters)
	fmt.Fprintf(os.Stderr, "%d agents have applied everything after %s\n", groups**placementClusters, time.Since(begun))
	<-time.After(settle)
	b.Run("place", func(b *testing.B) { measurePlacements(b, fleet, seen) })
	b.Run("waves", func(b *testing.B) { h.measureWaves(b, fleet, seen) })
}

// startGroups starts API servers and agents, and watches the API servers.
func startGroups(b *testing.B, h *hub, fleet fleetv1connect.FleetServiceClient, seen *sightings) {
	b.Helper()
	var servers []*localkube.ControlPlane
	for range *placementServers {
		cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
		watchObjects(b, cp, "/api/v1/configmaps?fieldSelector=metadata.name="+probe, func(object watched) {
			cluster, service, _ := strings.Cut(object.Metadata.Namespace, separator)
			seen.put(service+" "+object.Data[marker], cluster, time.Now())
		})
		servers = append(servers, cp)
	}
	documents := []*fleetv1.Document{fleetdoc.Of(&fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: "apps"}, Spec: &fleetv1.RepositorySpec{Url: h.repository.URL()},
	})}
	for i := range groups * *placementClusters {
		documents = append(documents, fleetdoc.Of(&fleetv1.Cluster{
			Metadata: &typev1.Metadata{Name: clusterName(i), Labels: map[string]string{groupLabel: groupName(i % groups)}},
		}))
	}
	applyAll(b, fleet, documents...)
	startAgents(b, h, fleet, servers, groups**placementClusters)
}

// globalOf delivers a folder to clusters, in a namespace for each of them.
func globalOf(name, folder string, to *fleetv1.ClusterTarget) *fleetv1.Document {
	return fleetdoc.Of(&fleetv1.GlobalService{
		Metadata: &typev1.Metadata{Name: name},
		Spec: &fleetv1.GlobalServiceSpec{Clusters: to, Template: &fleetv1.ServiceSpec{
			Sources: []*typev1.Source{{Repository: "apps", Path: folder}}, Namespace: "${{ self.name }}" + separator + name,
		}},
	})
}

// wavesPolicy makes a wave of each group. All clusters of a wave may change at once.
func wavesPolicy() *fleetv1.Document {
	spec := &fleetv1.RolloutPolicySpec{Services: []string{wavesService}, MaxUnavailable: "100%"}
	for i := range groups {
		spec.Waves = append(spec.Waves, &fleetv1.RolloutWave{Name: groupName(i), Labels: map[string]string{groupLabel: groupName(i)}})
	}
	return fleetdoc.Of(&fleetv1.RolloutPolicy{Metadata: &typev1.Metadata{Name: wavesService}, Spec: spec})
}

// measurePlacements defines one global service after the other for the clusters of the first group.
func measurePlacements(b *testing.B, fleet fleetv1connect.FleetServiceClient, seen *sightings) {
	var took []time.Duration
	for i := range *placementRounds {
		name := fmt.Sprintf("placed-%02d", i)
		target := &fleetv1.ClusterTarget{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{groupLabel: groupName(0)}}}
		defined := time.Now()
		applyAll(b, fleet, globalOf(name, "placed", target))
		for _, at := range seen.await(b, name+" 0", *placementClusters) {
			took = append(took, at.Sub(defined))
		}
		<-time.After(betweenCommits)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-placed-ms")
	b.ReportMetric(float64(took[len(took)*9/10].Milliseconds()), "p90-placed-ms")
	b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "last-placed-ms")
}

// measureWaves commits, and waits for the end of the rollout.
func (h *hub) measureWaves(b *testing.B, fleet fleetv1connect.FleetServiceClient, seen *sightings) {
	var applied, completed []time.Duration
	for i := range *placementRounds {
		commit := fmt.Sprint(i + 1)
		h.repository.Commit(b, "main", map[string]string{wavesService + "/" + probe + ".yaml": configMap(probe, commit)})
		committed := time.Now()
		h.refresh(b)
		at := seen.await(b, wavesService+" "+commit, groups**placementClusters)
		applied = append(applied, slices.MaxFunc(at, time.Time.Compare).Sub(committed))
		poll(b, "the rollout to end", func() bool {
			found, err := fleet.Get(b.Context(), &fleetv1.GetRequest{Kind: "RolloutPolicy", Name: wavesService})
			if err != nil {
				b.Fatal(err)
			}
			latest := found.GetDocument().GetRolloutPolicy().GetStatus().GetLatest()
			return latest.GetNumber() > int64(i) && latest.GetState() == "completed"
		})
		completed = append(completed, time.Since(committed))
		<-time.After(betweenCommits)
	}
	slices.Sort(applied)
	slices.Sort(completed)
	b.ReportMetric(applied[len(applied)/2].Seconds(), "p50-s/applied")
	b.ReportMetric(applied[len(applied)-1].Seconds(), "worst-s/applied")
	b.ReportMetric(completed[len(completed)/2].Seconds(), "p50-s/completed")
	b.ReportMetric(completed[len(completed)-1].Seconds(), "worst-s/completed")
}
