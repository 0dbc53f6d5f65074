// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
)

// stormScale returns the short form, or with LEAT_FAULT_LONG the long one.
func stormScale() (sc scale, clusters int, breath time.Duration) {
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		return scale{repositories: 6, faults: 40, lease: 3 * time.Second, poll: 5 * time.Second}, 20, 5 * time.Second
	}
	return scale{repositories: 2, faults: 3, lease: 2 * time.Second, poll: 5 * time.Second}, 4, time.Second
}

// trouble is one failure during a storm of commits.
type trouble struct {
	name   string
	happen func(t *testing.T, h *hub, breath time.Duration)
}

func troubles() []trouble {
	return []trouble{
		{"Redis is flushed", func(t *testing.T, h *hub, breath time.Duration) {
			t.Helper()
			if err := h.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			h.storm(t, breath)
		}},
		{"a distributor is killed", func(t *testing.T, h *hub, breath time.Duration) {
			t.Helper()
			victim := h.anyDistributor()
			victim.kill(t)
			h.storm(t, breath)
			victim.start(t)
		}},
		{"a distributor is frozen", func(t *testing.T, h *hub, breath time.Duration) {
			t.Helper()
			victim := h.anyDistributor()
			victim.signal(t, syscall.SIGSTOP)
			h.storm(t, 3*breath)
			victim.signal(t, syscall.SIGCONT)
			h.storm(t, breath)
		}},
		{"a gitcache is killed", func(t *testing.T, h *hub, breath time.Duration) {
			t.Helper()
			victim := h.any()
			victim.kill(t)
			h.storm(t, 2*breath)
			victim.start(t)
		}},
		{"Redis is gone for a while", func(t *testing.T, h *hub, breath time.Duration) {
			t.Helper()
			h.redis.Kill(t)
			h.storm(t, breath)
			h.redis.Restart(t)
		}},
	}
}

func (h *hub) anyDistributor() *process { return h.distributors[rand.IntN(len(h.distributors))] }

// TestNoAgentGoesBackThroughAStorm has agents ask any of three replicas in turn during a storm of
// commits, edits by people, flushes of Redis, and kills and freezes of replicas. No agent may ever
// receive an older commit than it saw, and no service may vanish from a plan or lose its content.
// After the storm every replica gets every plan right.
func TestNoAgentGoesBackThroughAStorm(t *testing.T) {
	t.Parallel()
	const resync = 5 * time.Second
	sc, clusters, breath := stormScale()
	h := newHub(t, sc, 3, clusters, resync)
	var wanderers []*wanderer
	for i := range clusters {
		wanderers = append(wanderers, newWanderer(t, h, clusterName(i)))
	}
	h.waitRight(t, wanderers)
	ctx, cancel := context.WithCancel(t.Context())
	var wandering sync.WaitGroup
	defer wandering.Wait()
	defer cancel()
	for _, w := range wanderers {
		wandering.Go(func() { w.wander(ctx) })
	}

	kinds := troubles()
	for i := range sc.faults {
		next := kinds[i%len(kinds)]
		if i >= len(kinds) {
			next = kinds[rand.IntN(len(kinds))]
		}
		h.storm(t, breath)
		h.edit(t)
		next.happen(t, h, breath)
		t.Logf("trouble %d of %d: %s; %d commits so far", i+1, sc.faults, next.name, len(h.commits))
		wantNoBreaches(t, wanderers)
	}
	h.waitRight(t, wanderers)
	t.Logf("every replica had every plan right after the storm of %d commits", len(h.commits))
	cancel()
	wandering.Wait()
	wantNoBreaches(t, wanderers)
	for _, w := range wanderers {
		t.Logf("%s: answers of the replicas %v, refusals %v", w.cluster, w.answers, w.refusals)
		w.wantBundles(t)
	}
}

// waitRight waits until every replica's plan of every cluster matches Git.
func (h *hub) waitRight(t *testing.T, wanderers []*wanderer) {
	t.Helper()
	for _, w := range wanderers {
		for i := range h.distributors {
			await.Poll(t, "the plan of "+w.cluster+" at "+h.distributors[i].name, pause, func() (bool, string) {
				return w.right(t.Context(), i), ""
			})
		}
	}
}

func wantNoBreaches(t *testing.T, wanderers []*wanderer) {
	t.Helper()
	var all []string
	for _, w := range wanderers {
		all = append(all, w.breaches()...)
	}
	if len(all) > 0 {
		t.Fatalf("got %d breaches, want none:\n%s", len(all), strings.Join(all, "\n"))
	}
}
