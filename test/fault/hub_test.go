// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

const adminToken = "leat_the-admin-token-of-this-test"

// hub is several replicas of the distributor on one PostgreSQL, with a fleet of gitcache replicas.
type hub struct {
	*fleet
	distributors []*process
	postgres     *postgrestest.Server
	standby      *postgrestest.Server // nil unless the scale has it
	// settings are added to each distributor's.
	settings []string
	resync   time.Duration
	clusters int

	mu sync.Mutex
	// commits maps each commit to its number in its repository.
	commits map[string]int
	heads   map[string]string
	// services is the number of services of each cluster.
	services int
}

// newHub starts two replicas of gitcache and the given number of the distributor, and writes a
// catalog: every cluster runs every repository's folder app, and the folder other, which no commit
// touches.
func newHub(t *testing.T, sc scale, distributors, clusters int, resync time.Duration) *hub {
	t.Helper()
	h := newContent(t, sc, build(t, "gitcache"))
	h.resync = resync
	h.addDistributors(t, distributors, build(t, "distributor"))
	h.catalog(t, clusters)
	return h
}

// newContent starts two replicas of gitcache, and a repository has its first commit.
func newContent(t *testing.T, sc scale, gitcache string) *hub {
	t.Helper()
	h := &hub{
		fleet: &fleet{
			scale: sc, egress: newEgress(), events: newEpochs(), upstream: gittest.New(t), binary: gitcache, redis: redistest.Start(t),
		},
		commits: map[string]int{}, heads: map[string]string{},
	}
	for i := range sc.repositories {
		h.repos = append(h.repos, fmt.Sprintf("repo-%02d", i))
		h.commit(t, h.repos[i])
	}
	h.add(t)
	h.add(t)
	return h
}

// addDistributors starts so many replicas on a database of their own.
func (h *hub) addDistributors(t *testing.T, replicas int, binary string) {
	t.Helper()
	h.postgres = postgrestest.New(t)
	database := h.postgres.Database(t)
	if h.scale.standby {
		h.standby = h.postgres.Standby(t)
		database = strings.Replace(database, h.postgres.Addr(), h.postgres.Addr()+","+h.standby.Addr(), 1) + "?target_session_attrs=read-write"
	}
	for range replicas {
		h.addDistributor(t, binary, database)
	}
}

func (h *hub) addDistributor(t *testing.T, binary, database string) {
	t.Helper()
	number := len(h.distributors)
	p := &process{
		name: fmt.Sprintf("distributor-%d", number), binary: binary, addr: loopback.Addr(t), log: filepath.Join(t.TempDir(), "log"), dir: t.TempDir(),
	}
	p.disk = newDisk(t, p.dir, h.scale.disk)
	p.env = []string{
		"LEAT_LISTEN_ADDR=" + p.addr,
		"LEAT_SERVICE_SECRET=" + hubkeys.Secret(identity.ServiceDistributor),
		"LEAT_SERVICE_KEYS=" + strings.Join(hubkeys.List(), ","),
		"LEAT_GITCACHE_URL=" + h.replicas[number%len(h.replicas)].url(),
		"LEAT_DISTRIBUTOR_DATA_DIR=" + p.dir,
		"LEAT_DISTRIBUTOR_DATABASE_URL=" + database,
		"LEAT_DISTRIBUTOR_ADMIN_TOKEN=" + adminToken,
		"LEAT_DISTRIBUTOR_RESYNC_INTERVAL=" + h.resync.String(),
		"LEAT_DISTRIBUTOR_RECONCILE_INTERVAL=2s",
	}
	p.env = append(p.env, h.settings...)
	h.distributors = append(h.distributors, p)
	p.start(t)
}

// commit writes the next commit of a repository, and returns its number. Its folder app has that
// number in a ConfigMap.
func (h *hub) commit(t *testing.T, repository string) (number int) {
	t.Helper()
	return h.commitWith(t, repository, nil)
}

// commitWith is commit, and writes more files.
func (h *hub) commitWith(t *testing.T, repository string, more map[string]string) (number int) {
	t.Helper()
	h.mu.Lock()
	number = len(h.commits)
	h.mu.Unlock()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: serial}\ndata: {number: \"%d\"}\n", number)
	files := map[string]string{"app/config.yaml": manifest, "other/file": "never changes"}
	maps.Copy(files, more)
	id := h.upstream.Repo(t, repository).Commit(t, "main", files)
	h.mu.Lock()
	h.commits[id], h.heads[repository] = number, id
	h.mu.Unlock()
	return number
}

// storm keeps committing to random repositories, as fast as Git can, for that long.
func (h *hub) storm(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		repository := h.repos[rand.IntN(len(h.repos))]
		h.commit(t, repository)
		// Refresh like a webhook. It may fail: then the poll finds the commit.
		_, _ = h.client(t, rand.IntN(len(h.replicas))).RefreshRepository(t.Context(), &gitcachev1.RefreshRepositoryRequest{Name: repository})
	}
}

// number returns the position of a commit in the order of all commits.
func (h *hub) number(commit string) (int, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.commits[commit]
	return n, ok
}

func (h *hub) head(repository string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heads[repository]
}

func (h *hub) to(t *testing.T, replica int, token string) rpc.Client {
	t.Helper()
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: h.distributors[replica].url(), Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (h *hub) agents(t *testing.T, replica int, token string) distributorv1connect.DistributorServiceClient {
	t.Helper()
	c := h.to(t, replica, token)
	return distributorv1connect.NewDistributorServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func (h *hub) admin(t *testing.T, replica int) fleetv1connect.FleetServiceClient {
	t.Helper()
	c := h.to(t, replica, adminToken)
	return fleetv1connect.NewFleetServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%02d", i) }

func (h *hub) catalog(t *testing.T, clusters int) {
	t.Helper()
	var documents []*fleetv1.Document
	for _, repository := range h.repos {
		documents = append(documents, &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
			Metadata: &typev1.Metadata{Name: repository},
			Spec: &fleetv1.RepositorySpec{
				Url: "http://" + upstreamHost + "/" + repository + ".git", PollInterval: durationpb.New(h.scale.poll),
			},
		}}})
	}
	for i := range clusters {
		documents = append(documents, &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{
			Metadata: &typev1.Metadata{Name: clusterName(i)},
		}}})
		for _, repository := range h.repos {
			documents = append(documents, serviceOf(clusterName(i), repository+"-app", repository, "app"),
				serviceOf(clusterName(i), repository+"-other", repository, "other"))
		}
	}
	h.clusters, h.services = clusters, 2*len(h.repos)
	h.apply(t, documents...)
}

// edit adds one service to every cluster, at one of the replicas.
func (h *hub) edit(t *testing.T) {
	t.Helper()
	var documents []*fleetv1.Document
	for i := range h.clusters {
		documents = append(documents, serviceOf(clusterName(i), fmt.Sprintf("extra-%02d", h.services), h.repos[0], "app"))
	}
	h.services++
	h.apply(t, documents...)
}

func (h *hub) apply(t *testing.T, documents ...*fleetv1.Document) {
	t.Helper()
	if _, err := h.admin(t, rand.IntN(len(h.distributors))).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents}); err != nil {
		t.Fatal(err)
	}
}

func serviceOf(cluster, name, repository, path string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: cluster + "-" + name},
		Spec: &fleetv1.ServiceSpec{Cluster: cluster, Sources: []*typev1.Source{{
			Repository: repository, Path: path, Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
		}}},
	}}}
}

// enrol enrols an agent at one replica and obtains its token from another.
func (h *hub) enrol(t *testing.T, cluster string) string {
	t.Helper()
	somewhere := func() int { return rand.IntN(len(h.distributors)) }
	join, err := h.admin(t, somewhere()).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.agents(t, somewhere(), "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: public}); err != nil {
		t.Fatal(err)
	}
	assertion, err := identity.SignAssertion(key, cluster)
	if err != nil {
		t.Fatal(err)
	}
	token, err := h.agents(t, somewhere(), "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		t.Fatal(err)
	}
	return token.GetAccessToken()
}
