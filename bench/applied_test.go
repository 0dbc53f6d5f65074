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
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/bench/internal/edge"
	"github.com/leatdev/leat/bench/internal/process"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

var (
	appliedAgents   = flag.Int("applied.agents", 100, "agents of BenchmarkApplied, each a process of its own with a cluster of its own")
	appliedServers  = flag.Int("applied.servers", 4, "API servers that the agents of BenchmarkApplied share")
	appliedServices = flag.Int("applied.services", 20, "services of each agent, of ten ConfigMaps each")
	appliedCommits  = flag.Int("applied.commits", 20, "commits that BenchmarkApplied measures")
)

const (
	// objectsPerFolder is how many ConfigMaps a service has. A commit changes one of them.
	objectsPerFolder = 10
	// probe is that object, and marker its field that names the commit.
	probe, marker = "object-00", "commit"
	// appliedPatience bounds the wait for all agents to apply something.
	appliedPatience = 10 * time.Minute
	// betweenCommits is the pause after a commit has arrived everywhere.
	betweenCommits = 2 * time.Second
)

// BenchmarkApplied measures how long a commit takes from the moment when the Git server has it
// until each of many agents has applied it: gitcache is told of it, as by a webhook, and the changed
// object is seen in a watch of its API server.
//
// Everything is real, each in a process of its own: gitcache, distributor, agents and API servers.
// Agents that share an API server keep their own objects in namespaces of their own, and deliver to
// others.
func BenchmarkApplied(b *testing.B) {
	h := &hub{repository: gittest.New(b).Repo(b, "apps")}
	h.repository.Commit(b, "main", manifestsOf("0"))
	h.startServices(b, "sqlite://"+filepath.Join(b.TempDir(), "leat.db"), "")
	begun, seen := time.Now(), newSightings()
	startApplied(b, h, seen)
	seen.await(b, "0", *appliedAgents)
	fmt.Fprintf(os.Stderr, "%d agents have applied everything after %s\n", *appliedAgents, time.Since(begun))
	<-time.After(settle)
	var took []time.Duration
	for i := range *appliedCommits {
		commit := fmt.Sprint(i + 1)
		h.repository.Commit(b, "main", map[string]string{sharedFolder + "/" + probe + ".yaml": configMap(probe, commit)})
		committed := time.Now()
		h.refresh(b)
		for _, at := range seen.await(b, commit, *appliedAgents) {
			took = append(took, at.Sub(committed))
		}
		<-time.After(betweenCommits)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-applied-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-applied-ms")
	b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "last-applied-ms")
	b.ReportMetric(float64(len(took)), "applies")
}

// manifestsOf returns the files of all services as of a commit.
func manifestsOf(commit string) map[string]string {
	files := map[string]string{}
	for i := range *appliedServices {
		for j := range objectsPerFolder {
			name := fmt.Sprintf("object-%02d", j)
			files[fmt.Sprintf("app-%02d/%s.yaml", i, name)] = configMap(name, commit)
		}
	}
	return files
}

func configMap(name, commit string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s: %q, text: %q}\n", name, marker, commit, strings.Repeat("x", 500))
}

// startApplied starts API servers and agents, and watches the API servers.
func startApplied(b *testing.B, h *hub, seen *sightings) {
	b.Helper()
	var clusters []*localkube.ControlPlane
	for range *appliedServers {
		cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
		watch(b, cp, seen)
		clusters = append(clusters, cp)
	}
	admin := edge.Connect(b, h.distributor.url, edge.AdminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	documents := []*fleetv1.Document{{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: "apps"}, Spec: &fleetv1.RepositorySpec{Url: h.repository.URL()},
	}}}}
	for i := range *appliedAgents {
		documents = append(documents, appliedDocuments(clusterName(i))...)
	}
	applyAll(b, fleet, documents...)
	startAgents(b, h, fleet, clusters, *appliedAgents)
}

// applyAll applies documents, in as many calls as that takes.
func applyAll(b *testing.B, fleet fleetv1connect.FleetServiceClient, documents ...*fleetv1.Document) {
	b.Helper()
	for chunk := range slices.Chunk(documents, documentsPerApply) {
		if _, err := fleet.Apply(b.Context(), &fleetv1.ApplyRequest{Documents: chunk}); err != nil {
			b.Fatal(err)
		}
	}
}

// startAgents starts the agents of the first so many clusters, in processes of their own, which share the API servers.
func startAgents(b *testing.B, h *hub, fleet fleetv1connect.FleetServiceClient, servers []*localkube.ControlPlane, agents int) (started []*process.Process) {
	b.Helper()
	program := process.Build(b, "services/agent/cmd/agent")
	var group errgroup.Group
	group.SetLimit(joining)
	tokens := make([]string, agents)
	for i := range tokens {
		group.Go(func() error {
			joined, err := fleet.CreateJoinToken(b.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: clusterName(i)})
			tokens[i] = joined.GetJoinToken()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	for i, token := range tokens {
		started = append(started, process.Start(b, process.Params{Binary: program, Env: []string{
			"LEAT_LISTEN_ADDR=127.0.0.1:0", "LEAT_AGENT_HUB_URL=" + h.distributor.url, "LEAT_AGENT_JOIN_TOKEN=" + token,
			"LEAT_AGENT_DATA_DIR=" + b.TempDir(), "LEAT_AGENT_KUBECONFIG=" + servers[i%len(servers)].KubeconfigPath(),
			"LEAT_AGENT_NAMESPACE=agent-of-" + clusterName(i), "LEAT_LOG_LEVEL=error", "GOMEMLIMIT=180MiB",
		}}))
	}
	return started
}

// appliedDocuments returns a cluster and its services, which are applied to a namespace of the
// cluster's name.
func appliedDocuments(cluster string) []*fleetv1.Document {
	documents := []*fleetv1.Document{{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: cluster}}}}}
	for i := range *appliedServices {
		folder := fmt.Sprintf("app-%02d", i)
		namespace := cluster
		if folder != sharedFolder {
			namespace += "-" + folder // names of objects are the same in all folders
		}
		documents = append(documents, &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
			Metadata: &typev1.Metadata{Name: cluster + "-" + folder},
			Spec: &fleetv1.ServiceSpec{
				Cluster: cluster, Namespace: namespace, Sources: []*typev1.Source{{Repository: "apps", Path: folder}},
			},
		}}})
	}
	return documents
}

// sightings are the times at which commits were seen in clusters.
type sightings struct {
	mu      sync.Mutex // guards what follows
	commits map[string]map[string]time.Time
	changed chan struct{} // closed at the next sighting
}

func newSightings() *sightings {
	return &sightings{commits: map[string]map[string]time.Time{}, changed: make(chan struct{})}
}

// put records the first sighting of a commit in a cluster.
func (s *sightings) put(commit, cluster string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commits[commit] == nil {
		s.commits[commit] = map[string]time.Time{}
	}
	if _, again := s.commits[commit][cluster]; again {
		return
	}
	s.commits[commit][cluster] = at
	close(s.changed)
	s.changed = make(chan struct{})
}

// await blocks until so many clusters have the commit, and returns when each had it.
func (s *sightings) await(b *testing.B, commit string, clusters int) []time.Time {
	b.Helper()
	timeout := time.After(appliedPatience)
	for {
		s.mu.Lock()
		var times []time.Time
		for _, at := range s.commits[commit] {
			times = append(times, at)
		}
		changed := s.changed
		s.mu.Unlock()
		if len(times) >= clusters {
			return times
		}
		select {
		case <-changed:
		case <-timeout:
			b.Fatalf("commit %s: %d of %d clusters have it after %s", commit, len(times), clusters, appliedPatience)
		}
	}
}

// watch records when the probe of each cluster changes in an API server, until the benchmark ends.
func watch(b *testing.B, cp *localkube.ControlPlane, seen *sightings) {
	b.Helper()
	watchObjects(b, cp, "/api/v1/configmaps?fieldSelector=metadata.name="+probe, func(object watched) {
		if !strings.Contains(object.Metadata.Namespace, "-app-") {
			seen.put(object.Data[marker], object.Metadata.Namespace, time.Now())
		}
	})
}
