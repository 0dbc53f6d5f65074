// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// scale is the size of a fault test.
type scale struct {
	repositories, faults int
	lease                time.Duration // how long a lease lives without renewal
	poll                 time.Duration
	hold                 time.Duration // how long the upstream takes to answer once all is cloned
	disk                 int           // MiB of the disk of each gitcache and each distributor; zero: that of this machine
	standby              bool          // PostgreSQL has one
}

// chosenScale returns the short form, or with LEAT_FAULT_LONG the long one, with the leases of
// production.
func chosenScale() scale {
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		return scale{repositories: 20, faults: 10, lease: 15 * time.Second, poll: 5 * time.Second}
	}
	return scale{repositories: 8, faults: 3, lease: 3 * time.Second, poll: 5 * time.Second}
}

// fleet is some gitcache replicas on one Redis, in front of one Git server.
type fleet struct {
	scale    scale
	egress   *egress
	events   *epochs
	replicas []*process
	repos    []string
	upstream *gittest.Server
	binary   string
	redis    *redistest.Server
}

func newFleet(t *testing.T, sc scale, replicas int) *fleet {
	t.Helper()
	f := &fleet{
		scale: sc, egress: newEgress(), events: newEpochs(), upstream: gittest.New(t), binary: build(t, "gitcache"), redis: redistest.Start(t),
	}
	for i := range sc.repositories {
		name := fmt.Sprintf("repo-%02d", i)
		f.upstream.Repo(t, name).Commit(t, "main", map[string]string{
			"app/config.yaml": fmt.Sprintf("number: %d\n", i), "other/file": "x",
		})
		f.repos = append(f.repos, name)
	}
	for range replicas {
		f.add(t)
	}
	client := f.client(t, 0)
	for i, name := range f.repos {
		_, err := client.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: &gitcachev1.RepositoryDefinition{
			Name: name, Uid: fmt.Sprintf("uid-%02d", i), Version: 1,
			Url:          "http://" + upstreamHost + "/" + name + ".git",
			PollInterval: durationpb.New(sc.poll),
		}})
		if err != nil {
			t.Fatalf("put %s: %v", name, err)
		}
	}
	f.waitFetchedSince(t, time.Time{})
	f.egress.holdFor(sc.hold)
	return f
}

// add starts one more replica and returns its number.
func (f *fleet) add(t *testing.T) int {
	t.Helper()
	number := len(f.replicas)
	name, addr, dir := fmt.Sprintf("gitcache-%d", number), loopback.Addr(t), t.TempDir()
	redis, door := newWire(t, f.redis.Addr()), newWire(t, addr)
	replica := &process{
		name: name, binary: f.binary, addr: addr, log: filepath.Join(t.TempDir(), "log"), dir: dir, redis: redis, door: door,
		disk: newDisk(t, dir, f.scale.disk),
		env: []string{
			"LEAT_LISTEN_ADDR=" + addr,
			"LEAT_REDIS_URL=redis://" + redis.addr() + "/0",
			"LEAT_SERVICE_SECRET=" + hubkeys.Secret(identity.ServiceGitCache),
			"LEAT_SERVICE_KEYS=" + strings.Join(hubkeys.List(), ","),
			"LEAT_GITCACHE_DATA_DIR=" + dir,
			"LEAT_GITCACHE_ADVERTISE_URL=http://" + door.addr(),
			"LEAT_GITCACHE_LEASE_TTL=" + f.scale.lease.String(),
			"LEAT_GITCACHE_REBALANCE=2s",
			"HTTP_PROXY=" + f.egress.proxy(t, name, f.upstream.URL()),
		},
	}
	f.replicas = append(f.replicas, replica)
	replica.start(t)
	return number
}

// client returns a client of one replica, with the distributor's identity. Its calls are not traced:
// gitcache begins the trace of a commit that they make it fetch, as it does for a webhook.
func (f *fleet) client(t *testing.T, replica int) gitcachev1connect.GitCacheServiceClient {
	t.Helper()
	tokens := hubkeys.Tokens(identity.ServiceDistributor, identity.ServiceGitCache)
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: f.replicas[replica].url(), Tokens: tokens, Telemetry: telemetry.Noop()})
	if err != nil {
		t.Fatal(err)
	}
	return gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL)
}

// waitFetchedSince waits until each repository was fetched after the moment.
func (f *fleet) waitFetchedSince(t *testing.T, moment time.Time) {
	t.Helper()
	await.Poll(t, "every repository to be fetched again", pause, func() (bool, string) {
		stale := f.egress.staleSince(moment, f.repos)
		return len(stale) == 0, strings.Join(stale, ", ")
	})
}

// digests resolves a folder of every repository at one replica.
func (f *fleet) digests(t *testing.T, replica int) map[string]string {
	t.Helper()
	client := f.client(t, replica)
	found := make(map[string]string)
	for _, name := range f.repos {
		await.Success(t, name+" to be resolved at "+f.replicas[replica].name, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			answer, err := client.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{
				Repository: name, Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
			}})
			found[name] = answer.GetSnapshot().GetDigest()
			return err
		})
	}
	return found
}

// TestOneFetcherThroughKills kills replicas at random: no two replicas may ever fetch a repository
// at once, each repository is fetched again, and every digest stays the same.
func TestOneFetcherThroughKills(t *testing.T) {
	t.Parallel()
	f := newFleet(t, chosenScale(), 2)
	want := f.digests(t, 0)
	for i := range f.scale.faults {
		victim := f.replicas[rand.IntN(len(f.replicas))]
		victim.kill(t)
		f.waitFetchedSince(t, time.Now())
		t.Logf("kill %d of %s: every repository fetched again", i+1, victim.name)
		victim.start(t)
	}
	for i := range f.replicas {
		got := f.digests(t, i)
		for name, digest := range want {
			if got[name] != digest {
				t.Errorf("%s at %s: got %s, want %s", name, f.replicas[i].name, got[name], digest)
			}
		}
	}
	t.Logf("%d listings upstream", f.egress.total())
	if breaches := f.egress.overlaps(); len(breaches) > 0 {
		t.Errorf("got %d overlapping fetches, want none:\n%s", len(breaches), strings.Join(breaches, "\n"))
	}
}

// TestOneFetcherThroughFreezes stops a replica for longer than its leases last and resumes it: it
// must notice before any request reaches the upstream.
func TestOneFetcherThroughFreezes(t *testing.T) {
	t.Parallel()
	sc := chosenScale()
	sc.faults = max(2, sc.faults/3)
	f := newFleet(t, sc, 2)
	for range sc.faults {
		victim := f.replicas[rand.IntN(len(f.replicas))]
		victim.signal(t, syscall.SIGSTOP)
		f.waitFetchedSince(t, time.Now())
		t.Logf("froze %s: every repository fetched again", victim.name)
		victim.signal(t, syscall.SIGCONT)
		f.waitFetchedSince(t, time.Now())
	}
	if breaches := f.egress.overlaps(); len(breaches) > 0 {
		t.Errorf("got %d overlapping fetches, want none:\n%s", len(breaches), strings.Join(breaches, "\n"))
	}
}
