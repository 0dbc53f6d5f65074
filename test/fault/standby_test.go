// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"strings"
	"testing"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/await"
)

// steady is a life of leases that end only with their owners: one that ends during the first clone,
// because the machine is busy, makes the next owner clone again.
const steady = 15 * time.Second

// owners returns the owner of each repository, as seen by one replica.
func (f *fleet) owners(t *testing.T, at int) map[string]string {
	t.Helper()
	client, found := f.client(t, at), make(map[string]string)
	for _, name := range f.repos {
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
		resp, err := client.GetRepository(ctx, &gitcachev1.GetRepositoryRequest{Name: name})
		cancel()
		if err == nil {
			found[name] = resp.GetState().GetOwner()
		}
	}
	return found
}

// resolved reports whether one replica answers for every repository.
func (f *fleet) resolved(t *testing.T, at int) bool {
	t.Helper()
	client := f.client(t, at)
	for _, name := range f.repos {
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
		resp, err := client.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{
			Repository: name, Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
		}})
		cancel()
		if err != nil || resp.GetFreshAt() == nil {
			return false
		}
	}
	return true
}

// TestOwnerDiesWhileUpstreamIsDown kills one of two replicas without warning while the upstream is
// stopped: the other one answers for every repository, and owns them all before the upstream is
// back.
func TestOwnerDiesWhileUpstreamIsDown(t *testing.T) {
	t.Parallel()
	sc := chosenScale()
	sc.lease = steady
	f := newFleet(t, sc, 2)
	f.awaitFollowedBy(t, f.replicas)
	want := f.digests(t, 0)
	f.upstream.Stop()
	f.replicas[0].kill(t)
	if got := f.digests(t, 1); len(got) != len(want) {
		t.Errorf("got %d repositories, want %d", len(got), len(want))
	} else {
		for name, digest := range want {
			if got[name] != digest {
				t.Errorf("%s: got %s, want %s", name, got[name], digest)
			}
		}
	}
	await.Poll(t, "the survivor to own everything", pause, func() (bool, string) {
		for _, owner := range f.owners(t, 1) {
			if owner != "http://"+f.replicas[1].door.addr() {
				return false, owner
			}
		}
		return true, ""
	})
	f.upstream.Start(t)
	f.waitFetchedSince(t, time.Now())
	if got := f.egress.objects(); got != len(f.repos) {
		t.Errorf("got %d clones, want one of each of %d repositories", got, len(f.repos))
	}
}

// TestReplicasComeAndGoWithoutClones replaces both replicas by two others, one after the other, by
// kills and by clean shutdowns.
func TestReplicasComeAndGoWithoutClones(t *testing.T) {
	t.Parallel()
	sc := chosenScale()
	// Hashed addresses decide the owners, and the ports are random: with so many repositories a
	// third replica always gets some of them.
	sc.repositories, sc.lease = 40, steady
	f := newFleet(t, sc, 2)
	f.awaitFollowedBy(t, f.replicas)
	want := f.digests(t, 0)
	for i := range 2 {
		added := f.add(t)
		moment := time.Now()
		f.awaitOwns(t, added)
		if i == 0 {
			f.replicas[i].stop(t)
		} else {
			f.replicas[i].kill(t)
		}
		f.waitFetchedSince(t, moment)
		await.True(t, "the others to answer for everything", func() bool { return f.resolved(t, added) })
		f.awaitFollowedBy(t, f.replicas[i+1:])
	}
	for name, digest := range f.digests(t, 3) {
		if digest != want[name] {
			t.Errorf("%s: got %s, want %s", name, digest, want[name])
		}
	}
	if got := f.egress.objects(); got != len(f.repos) {
		t.Errorf("got %d clones, want one of each of %d repositories", got, len(f.repos))
	}
	if breaches := f.egress.overlaps(); len(breaches) > 0 {
		t.Errorf("got %d overlapping fetches, want none:\n%s", len(breaches), strings.Join(breaches, "\n"))
	}
}

// awaitOwns waits until a new replica has been handed a repository.
func (f *fleet) awaitOwns(t *testing.T, replica int) {
	t.Helper()
	await.True(t, f.replicas[replica].name+" to own something", func() bool {
		for _, owner := range f.owners(t, replica) {
			if owner == "http://"+f.replicas[replica].door.addr() {
				return true
			}
		}
		return false
	})
}

// awaitFollowedBy waits until each mirror is on two of these replicas.
func (f *fleet) awaitFollowedBy(t *testing.T, replicas []*process) {
	t.Helper()
	await.True(t, "every mirror to have an owner and a follower", func() bool {
		held := map[string]int{}
		for _, replica := range replicas {
			for _, uid := range replica.held(t) {
				held[uid]++
			}
		}
		for _, n := range held {
			if n < 2 {
				return false
			}
		}
		return len(held) == len(f.repos)
	})
}
