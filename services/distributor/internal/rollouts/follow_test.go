// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
)

// led is an idle fleet with a leader elsewhere. It counts what this replica does to see the services.
type led struct {
	idle

	mu   sync.Mutex
	lead rollouts.Lead
	seen counts
}

// counts are questions for the lead, and what a sight of the services costs.
type counts struct{ leads, watches, looks, refreshes int }

func (l *led) Lead(context.Context) (rollouts.Lead, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.leads++
	return l.lead, nil
}

func (l *led) Claim(_ context.Context, holder string, seen rollouts.Lead) (term int64, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead = rollouts.Lead{Holder: holder, Term: seen.Term + 1}
	return l.lead.Term, true, nil
}

func (*led) Resign(context.Context, int64) error { return nil }

func (l *led) Refresh(context.Context) error {
	l.count(&l.seen.refreshes)
	return nil
}

func (l *led) Watch() rollouts.Watch {
	l.count(&l.seen.watches)
	return l
}

func (l *led) Look([]catalog.Key, bool) rollouts.Sight {
	l.count(&l.seen.looks)
	return rollouts.Sight{}
}

func (l *led) count(what *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*what++
}

// beat has the leader show that it lives.
func (l *led) beat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead.Beat++
}

// state returns who leads, and what was counted.
func (l *led) state() (holder string, seen counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.Holder, l.seen
}

// TestFollowersDoNotLook has another replica lead for an hour in which objects change. Until it falls silent,
// this replica reads the lead and nothing else: a sight of each service costs memory and time in large fleets.
func TestFollowersDoNotLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics, err := rollouts.NewMetrics(noop.Meter{})
		if err != nil {
			t.Fatal(err)
		}
		l := &led{lead: rollouts.Lead{Holder: "another", Term: 7}}
		objects := fanout.NewHub[catalog.Key](0)
		driver := rollouts.NewDriver(rollouts.Params{
			Store: l, Fleet: l, Sources: l, Objects: objects, Metrics: metrics, Logger: slog.New(slog.DiscardHandler), Holder: "this",
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- driver.Run(ctx) }()
		// advance moves the bubble's clock.
		advance := func(by time.Duration) {
			<-time.After(by)
			synctest.Wait()
		}
		for range 720 {
			advance(5 * time.Second)
			l.beat()
			objects.Publish(catalog.Key{Kind: catalog.KindService, Name: "shop@berlin"})
		}
		if _, seen := l.state(); seen.watches+seen.looks+seen.refreshes > 0 || seen.leads < 1000 {
			t.Errorf("got %+v while another replica led for an hour, want a question for the lead every two seconds or so and nothing else", seen)
		}
		advance(time.Minute)
		if holder, seen := l.state(); holder != "this" || seen.watches != 1 || seen.looks == 0 {
			t.Errorf("got %+v under %q after a minute of silence, want this replica to lead", seen, holder)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the driver ended with %v", err)
		}
	})
}
