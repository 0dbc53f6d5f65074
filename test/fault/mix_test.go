// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/redistest"
)

// fault is one failure, which is over when the function returns.
type fault struct {
	name   string
	happen func(t *testing.T, f *fleet)
}

// faults returns all kinds of faults. Each lasts as long as its own duration, up to three lease
// times.
func faults() []fault {
	return []fault{
		{"kill", func(t *testing.T, f *fleet) {
			t.Helper()
			victim := f.any()
			victim.kill(t)
			f.pause(t, 1)
			victim.start(t)
		}},
		{"stop", func(t *testing.T, f *fleet) {
			t.Helper()
			victim := f.any()
			victim.stop(t)
			victim.start(t)
		}},
		{"freeze", func(t *testing.T, f *fleet) {
			t.Helper()
			victim := f.any()
			victim.signal(t, syscall.SIGSTOP)
			f.pause(t, 3)
			victim.signal(t, syscall.SIGCONT)
		}},
		{"partition", func(t *testing.T, f *fleet) {
			t.Helper()
			victim := f.any()
			victim.redis.setCut(true)
			f.pause(t, 2)
			victim.redis.setCut(false)
		}},
		{"redis restart", func(t *testing.T, f *fleet) {
			t.Helper()
			f.redis.Kill(t)
			f.pause(t, 1)
			f.redis.Restart(t)
		}},
		{"redis flush", func(t *testing.T, f *fleet) {
			t.Helper()
			if err := f.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}},
		{"redis fail-over", func(t *testing.T, f *fleet) {
			t.Helper()
			f.failOver(t)
		}},
		{"late redis", func(t *testing.T, f *fleet) {
			t.Helper()
			victim := f.any()
			victim.redis.setDelay(time.Duration(rand.Int64N(int64(f.scale.lease / 2))))
			f.pause(t, 2)
			victim.redis.setDelay(0)
		}},
		{"frozen redis", func(t *testing.T, f *fleet) {
			t.Helper()
			f.redis.Pause(t)
			f.pause(t, 1)
			f.redis.Resume(t)
		}},
	}
}

// failOver makes a replica of Redis the primary. For an instant the old one continues and
// acknowledges writes that will be lost, as asynchronous replication does in a fail-over.
func (f *fleet) failOver(t *testing.T) {
	t.Helper()
	next := redistest.StartReplica(t, f.redis)
	next.Promote(t)
	rest(t.Context(), time.Duration(rand.Int64N(int64(time.Second))))
	f.redis.Kill(t)
	f.redis = next
	for _, replica := range f.replicas {
		replica.redis.lead(next.Addr())
	}
}

func (f *fleet) any() *process { return f.replicas[rand.IntN(len(f.replicas))] }

// pause blocks for up to so many lease times.
func (f *fleet) pause(t *testing.T, lives int) {
	t.Helper()
	rest(t.Context(), time.Duration(rand.Int64N(int64(lives)*int64(f.scale.lease))+int64(f.scale.lease)/10))
}

// rest blocks for that long, or until ctx is done: the duration of a fault, or of a simulated slow
// network.
func rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// mixScale returns the short form, or with LEAT_FAULT_LONG the one by which the promise is
// measured: 300 faults, 50 repositories, about half an hour.
func mixScale() scale {
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		return scale{
			repositories: 50, faults: 300, lease: 3 * time.Second, poll: 5 * time.Second,
			hold: 500 * time.Millisecond,
		}
	}
	return scale{
		repositories: 6, faults: 9, lease: 2 * time.Second, poll: 5 * time.Second,
		hold: 200 * time.Millisecond,
	}
}

// TestOneFetcherThroughAnything breaks three replicas and their Redis at random. No two replicas
// may ever fetch a repository at once, and no event of an older epoch is accepted after one of a
// newer. After the faults, in the long form also after every tenth, each repository is fetched
// again.
func TestOneFetcherThroughAnything(t *testing.T) {
	t.Parallel()
	f := newFleet(t, mixScale(), 3)
	want, kinds := f.digests(t, 0), faults()
	for replica := range f.replicas {
		// A replica that first learns of a repository from a Redis that has just lost its memory
		// cannot know that another one fetches it.
		f.digests(t, replica)
	}
	rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i := range f.scale.faults {
		next := kinds[i%len(kinds)] // each kind equally often, in any order
		if i >= len(kinds) {
			next = kinds[rand.IntN(len(kinds))]
		}
		next.happen(t, f)
		t.Logf("fault %d of %d: %s", i+1, f.scale.faults, next.name)
		if breaches := f.egress.overlaps(); len(breaches) > 0 {
			t.Fatalf("got %d overlapping fetches, want none:\n%s", len(breaches), strings.Join(breaches, "\n"))
		}
		f.events.check(t, f.redis)
		if (i+1)%10 == 0 {
			f.waitFetchedSince(t, time.Now())
		}
	}
	f.waitFetchedSince(t, time.Now())
	f.events.check(t, f.redis)
	t.Logf("quiet: every repository fetched again; %d listings upstream, %d events seen", f.egress.total(), f.events.seen)
	for i := range f.replicas {
		for name, digest := range f.digests(t, i) {
			if digest != want[name] {
				t.Errorf("%s at %s: got %s, want %s", name, f.replicas[i].name, digest, want[name])
			}
		}
	}
	if breaches := f.egress.overlaps(); len(breaches) > 0 {
		t.Errorf("got %d overlapping fetches, want none:\n%s", len(breaches), strings.Join(breaches, "\n"))
	}
}
