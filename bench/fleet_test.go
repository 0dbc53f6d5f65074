// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/bench/internal/edge"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

var (
	fleetClusters = flag.Int("fleet.clusters", 1000, "clusters of BenchmarkFleet, with 20 services each")
	fleetGlobals  = flag.Int("fleet.globals", 0, "global services of BenchmarkFleet for all clusters, in place of the 20 services of each cluster")
	fleetDir      = flag.String("fleet.dir", "", "folder that keeps the fleet's catalog between runs, because enrolling takes minutes; empty: a new one each time")
	fleetPostgres = flag.Bool("fleet.postgres", false, "use PostgreSQL in place of SQLite; nothing is kept between runs")
	fleetMemory   = flag.String("fleet.memory", "", "GOMEMLIMIT of the distributor, such as 2700MiB; empty: none")
	fleetIdle     = flag.Duration("fleet.idle", time.Minute, "how long BenchmarkFleet looks at an idle fleet")
	fleetCalls    = flag.Int("fleet.calls", 64, "calls that each agent makes before, a second apart, because connections of agents last for weeks")
)

const (
	// settle is how long the fleet rests after it connected, so that the connecting is not
	// measured.
	settle = 20 * time.Second
	// sharedFolder is the folder in which the commit of BenchmarkFleet changes a file.
	sharedFolder = "app-00"
	// filesPerFolder, and the incompressible bytes in each file, make a bundle of a typical size.
	filesPerFolder, fileNoise = 20, 500
)

// hub is the distributor and gitcache, each in its own process, with Redis, a database and a Git
// server.
type hub struct {
	distributor, gitcache *server
	repository            *gittest.Repo
	// database is the URL of the distributor's database, and tunnel the URL of the tunnel, which
	// agents are given.
	database, tunnel string
	// postgres has the database, or is nil with SQLite.
	postgres *postgrestest.Server
	redis    *redistest.Server
	agents   []*agent
	// disconnect ends the streams of all agents, and returns when their connections are closed.
	disconnect func()
}

// BenchmarkFleet connects a fleet, each agent over its own connection, and measures what the hub costs while nothing
// happens, without and with pages of the web UI. Then it commits to a folder that every cluster uses: how long until the
// last agent is notified, and how many bundles gitcache is asked for when all agents download theirs. Then the agents
// connect to a tunnel instead. Last, the distributor starts again.
func BenchmarkFleet(b *testing.B) {
	begun := time.Now()
	h := startHub(b)
	fmt.Fprintf(os.Stderr, "started after %s\n", time.Since(begun))
	h.connect(b, (*agent).start)
	fmt.Fprintf(os.Stderr, "all connected after %s\n", time.Since(begun))
	h.age(b)
	fmt.Fprintf(os.Stderr, "all have called %d times after %s\n", *fleetCalls, time.Since(begun))
	<-time.After(settle)
	b.Run("idle", h.measureIdle)
	b.Run("tabs", h.measureTabs)
	b.Run("commit", h.measureCommit)
	b.Run("tunnel", h.measureTunnel)
	b.Run("restart", h.measureRestart)
}

// servicesPerCluster is how many services each cluster has.
func servicesPerCluster() int {
	if *fleetGlobals > 0 {
		return *fleetGlobals
	}
	return servicesPerPlan
}

func startHub(b *testing.B) *hub {
	b.Helper()
	dir := *fleetDir
	if dir == "" {
		dir = b.TempDir()
	}
	h := &hub{repository: gittest.New(b).Repo(b, "apps")}
	files, random := map[string]string{}, rand.NewChaCha8([32]byte{}) // the same content in every run
	for i := range servicesPerCluster() {
		for j := range filesPerFolder {
			noise := make([]byte, fileNoise)
			_, _ = random.Read(noise) // never fails
			files[fmt.Sprintf("app-%02d/%02d.yaml", i, j)] = fmt.Sprintf("# %d %d\nkey: %x\n", i, j, noise)
		}
	}
	h.repository.Commit(b, "main", files)
	name := fmt.Sprintf("fleet-%d.db", *fleetClusters)
	if *fleetGlobals > 0 {
		name = fmt.Sprintf("fleet-%d-%d.db", *fleetClusters, *fleetGlobals)
	}
	database := "sqlite://" + filepath.Join(dir, name)
	if *fleetPostgres {
		h.postgres = postgrestest.New(b)
		database = h.postgres.Database(b)
	}
	h.startServices(b, database, "http://tunnel.invalid")
	h.seed(b)
	return h
}

// startServices starts gitcache, and a distributor with that database.
func (h *hub) startServices(b *testing.B, database, tunnel string) {
	b.Helper()
	h.database, h.tunnel = database, tunnel
	h.redis = redistest.Start(b)
	h.gitcache = startService(b, "gitcache", "LEAT_REDIS_URL="+h.redis.URL(),
		"LEAT_GITCACHE_DATA_DIR="+b.TempDir(), "LEAT_LOG_LEVEL=error")
	h.distributor = h.startDistributor(b)
}

// startDistributor starts a replica of the distributor.
func (h *hub) startDistributor(b *testing.B) *server {
	b.Helper()
	return startService(b, "distributor", "GOMEMLIMIT="+*fleetMemory, "LEAT_DISTRIBUTOR_DATABASE_URL="+h.database,
		"LEAT_DISTRIBUTOR_DATA_DIR="+b.TempDir(), "LEAT_DISTRIBUTOR_ADMIN_TOKEN="+edge.AdminToken,
		"LEAT_GITCACHE_URL="+h.gitcache.url, "LEAT_TUNNEL_URL="+h.tunnel, "LEAT_LOG_LEVEL=error")
}

// measureRestart starts the distributor again, and reports when it is ready and when all agents have
// their plans.
func (h *hub) measureRestart(b *testing.B) {
	h.renewTokens(b)
	h.disconnect()
	h.distributor.Stop(b)
	h.distributor = h.startDistributor(b)
	b.ReportMetric(h.distributor.readyAfter.Seconds(), "s/ready")
	begun := time.Now()
	h.connect(b, (*agent).watchPlan)
	b.ReportMetric(time.Since(begun).Seconds(), "s/all-back")
	_, highest := h.distributor.Memory(b)
	b.ReportMetric(float64(highest>>20), "peak-MiB")
}

// renewTokens gives every agent a new token. Real agents renew theirs when two thirds of its life are over, by and by,
// so that nearly all of them have one over a hub's restart.
func (h *hub) renewTokens(b *testing.B) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(joining)
	for _, a := range h.agents {
		group.Go(func() error { return a.obtainToken(b.Context()) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// age has every agent call once a second at most. The headers of calls and answers, of which both ends keep some, have the
// time.
func (h *hub) age(b *testing.B) {
	b.Helper()
	for range *fleetCalls {
		next := time.After(time.Second)
		var group errgroup.Group
		group.SetLimit(joining)
		for _, a := range h.agents {
			group.Go(func() error { return a.ask(b.Context()) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		<-next
	}
}

// measureIdle reports what the hub uses while its agents receive only heartbeats.
func (h *hub) measureIdle(b *testing.B) {
	distributor, gitcache, messages := h.distributor.CPU(b), h.gitcache.CPU(b), h.messages()
	collections := metric(b, h.distributor, "go_gc_duration_seconds_count")
	begun := time.Now()
	<-time.After(*fleetIdle)
	took := time.Since(begun)
	cores := func(spent time.Duration) float64 { return spent.Seconds() / took.Seconds() }
	distributor, gitcache = h.distributor.CPU(b)-distributor, h.gitcache.CPU(b)-gitcache
	b.ReportMetric(cores(distributor), "distributor-cores")
	b.ReportMetric(cores(gitcache), "gitcache-cores")
	// The processor's time of a short look depends on how many collections of garbage fall into it.
	b.ReportMetric(metric(b, h.distributor, "go_gc_duration_seconds_count")-collections, "distributor-collections")
	b.ReportMetric(float64(h.messages()-messages)/took.Seconds(), "heartbeats/s")
	for name, p := range map[string]*server{"distributor": h.distributor, "gitcache": h.gitcache} {
		now, highest := p.Memory(b)
		b.ReportMetric(float64(now>>20), name+"-MiB")
		b.ReportMetric(float64(highest>>20), name+"-peak-MiB")
	}
	for name, series := range map[string]string{
		"heap": "go_memstats_heap_inuse_bytes", "idle-heap": "go_memstats_heap_idle_bytes", "released-heap": "go_memstats_heap_released_bytes",
		"stacks": "go_memstats_stack_inuse_bytes",
	} {
		b.ReportMetric(metric(b, h.distributor, series)/(1<<20), "distributor-"+name+"-MiB")
	}
	b.ReportMetric(float64(h.databaseSize(b)>>20), "database-MiB")
	b.ReportMetric(float64(h.redisMemory(b)>>10), "redis-KiB")
}

// redisMemory returns the bytes that Redis has allocated.
func (h *hub) redisMemory(b *testing.B) int64 {
	b.Helper()
	info, err := h.redis.Client(b).InfoMap(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	bytes, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return bytes
}

// databaseSize returns the bytes of SQLite's files on disk, or of a database of PostgreSQL.
func (h *hub) databaseSize(b *testing.B) (bytes int64) {
	b.Helper()
	path, isFile := strings.CutPrefix(h.database, "sqlite://")
	if !isFile {
		return h.postgres.Size(b, h.database)
	}
	files, err := filepath.Glob(path + "*") // the database, and its log of writes
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}

// measureCommit reports when agents are notified of a commit, and what serving its bundle costs.
func (h *hub) measureCommit(b *testing.B) {
	for _, a := range h.agents {
		a.forgetChanges() // of a catalog kept from an earlier run, with other content
	}
	h.repository.Commit(b, "main", map[string]string{sharedFolder + "/00.yaml": "# " + time.Now().String()})
	spent, begun := h.distributor.CPU(b), time.Now()
	h.refresh(b)
	took := make([]time.Duration, len(h.agents))
	for i, a := range h.agents {
		took[i] = a.awaitChange(b, begun)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-known-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-known-ms")
	b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "last-known-ms")
	b.ReportMetric((h.distributor.CPU(b) - spent).Seconds(), "distributor-cpu-s")
	served := h.downloads(b)
	begun = time.Now()
	bytes := h.download(b)
	b.ReportMetric(time.Since(begun).Seconds(), "all-downloaded-s")
	b.ReportMetric(float64(bytes), "bytes/agent")
	b.ReportMetric(float64(h.downloads(b)-served), "gitcache-bundles")
}

// refresh makes gitcache fetch, like a webhook.
func (h *hub) refresh(b *testing.B) {
	b.Helper()
	tokens := hubkeys.Tokens(identity.ServiceDistributor, identity.ServiceGitCache)
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: h.gitcache.url, Tokens: tokens, Telemetry: telemetry.Noop()})
	if err != nil {
		b.Fatal(err)
	}
	gitcache := gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...)
	if _, err := gitcache.RefreshRepository(b.Context(), &gitcachev1.RefreshRepositoryRequest{Name: "apps"}); err != nil {
		b.Fatal(err)
	}
}

// downloads returns how many bundles gitcache was asked for, according to its metrics.
func (h *hub) downloads(b *testing.B) int {
	b.Helper()
	return int(metric(b, h.gitcache, "rpc_server_call_duration_seconds_count", gitcachev1connect.GitCacheServiceDownloadBundleProcedure[1:]))
}

// metric returns the sum of a server's metric over the series whose labels hold the texts.
func metric(b *testing.B, of *server, name string, labels ...string) float64 {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, of.internal+"/metrics", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		end := strings.LastIndexByte(lines.Text(), ' ')
		own, rest, _ := strings.Cut(lines.Text()[:max(end, 0)], "{")
		if own != name || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			continue
		}
		n, err := strconv.ParseFloat(lines.Text()[end+1:], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum
}
