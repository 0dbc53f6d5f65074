// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// led is an idle fleet with a leader elsewhere. It counts what this replica does to see the services.
type led struct {
	idle
	electiontest.Memory

	hasWork bool
	mu      sync.Mutex
	seen    counts
}

// counts are questions for the leader, and what a sight of the services costs.
type counts struct{ tenures, watches, looks, refreshes int }

func (l *led) Tenure(ctx context.Context) (election.Tenure, error) {
	l.count(&l.seen.tenures)
	return l.Memory.Tenure(ctx)
}

func (l *led) IsNeeded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasWork
}

func (l *led) Refresh(context.Context) error {
	l.count(&l.seen.refreshes)
	return nil
}

func (l *led) Watch() drive.Watch {
	l.count(&l.seen.watches)
	return l
}

func (l *led) Look([]catalog.Key, bool) drive.Sight {
	l.count(&l.seen.looks)
	return drive.Sight{}
}

func (l *led) count(what *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*what++
}

// counted returns what was counted.
func (l *led) counted() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// advance moves the bubble's clock.
func advance(by time.Duration) {
	<-time.After(by)
	synctest.Wait()
}

// follow runs a replica for an hour in which objects change, and calls beat meanwhile. It returns what was
// counted then, and stops the replica after then.
func (l *led) follow(t *testing.T, beat func(), then func()) counts {
	t.Helper()
	metrics, err := drive.NewMetrics(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	objects := fanout.NewHub[catalog.Key](0)
	driver := drive.NewDriver(drive.Params{
		Store: l, Election: l, Fleet: l, Sources: l, Objects: objects, Metrics: metrics, Logger: slog.New(slog.DiscardHandler), Holder: "this",
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(ctx) }()
	for range 720 {
		advance(5 * time.Second)
		beat()
		objects.Publish(catalog.Key{Kind: catalog.KindService, Name: "shop@berlin"})
	}
	seen := l.counted()
	then()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the driver ended with %v", err)
	}
	return seen
}

// TestFollowersDoNotLook has another replica lead for an hour in which objects change. Until it falls silent,
// this replica reads the tenure and nothing else: a sight of each service costs memory and time in large fleets.
func TestFollowersDoNotLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &led{hasWork: true}
		term := electiontest.Claim(t, &l.Memory, "another")
		beat := func() {
			if err := l.Beat(t.Context(), term); err != nil {
				t.Error(err)
			}
		}
		seen := l.follow(t, beat, func() {
			advance(time.Minute)
			tenure, _ := l.Tenure(t.Context())
			if seen := l.counted(); tenure.Holder != "this" || seen.watches != 1 || seen.looks == 0 {
				t.Errorf("got %+v under %q after a minute of silence, want this replica to lead", seen, tenure.Holder)
			}
		})
		if seen.watches+seen.looks+seen.refreshes > 0 || seen.tenures < 1000 {
			t.Errorf("got %+v while another replica led for an hour, want a question for the tenure every two seconds or so and nothing else", seen)
		}
	})
}

// TestReplicasWithoutPoliciesDoNotLook has no leader, and nothing to do for an hour. The replica
// asks for nothing and sees no service. It leads soon after the first policy is made.
func TestReplicasWithoutPoliciesDoNotLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := new(led)
		seen := l.follow(t, func() {}, func() {
			l.mu.Lock()
			l.hasWork = true
			l.mu.Unlock()
			advance(10 * time.Second)
			if seen := l.counted(); seen.watches != 1 || seen.looks == 0 {
				t.Errorf("got %+v, want one watch: this replica leads", seen)
			}
		})
		if seen != (counts{}) {
			t.Errorf("got %+v in an hour with nothing to do, want nothing", seen)
		}
	})
}
