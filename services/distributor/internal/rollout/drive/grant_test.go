// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// idle is a store and a fleet in which nothing happens but that newcomers wait.
type idle struct {
	drive.Store

	sight drive.Sight
	asked int
	saved int
}

func (*idle) Heads(context.Context) ([]drive.Head, error) { return nil, nil }
func (*idle) Refresh(context.Context) error               { return nil }
func (*idle) IsNeeded() bool                              { return true }
func (*idle) Still(look func())                           { look() }
func (*idle) Layers([]*catalog.Service) []string          { return nil }

func (*idle) Revision() int64 { return 0 }

func (*idle) Behind() func(*catalog.Service) bool {
	return func(*catalog.Service) bool { return false }
}

func (*idle) ClusterOf(*catalog.Service) *catalog.Cluster { return nil }
func (f *idle) Watch() drive.Watch                        { return f }
func (f *idle) Save(context.Context, int64, drive.Step) error {
	f.saved++
	return nil
}
func (f *idle) Look([]catalog.Key, bool) drive.Sight { return f.sight }
func (f *idle) Resolve(ctx context.Context, _ catalog.Source) (catalog.Snapshot, error) {
	f.asked++
	<-ctx.Done()
	return catalog.Snapshot{}, ctx.Err()
}

// TestSilentUpstreamHoldsNoRoundUp has newcomers of many policies wait for a gitcache that does not answer.
// A leader that stood still would hold up the rollouts of all policies.
func TestSilentUpstreamHoldsNoRoundUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics, err := drive.NewMetrics(noop.Meter{})
		if err != nil {
			t.Fatal(err)
		}
		f := &idle{sight: drive.Sight{Members: map[string][]drive.Seen{}}}
		for i := range 64 {
			policy := &catalog.RolloutPolicy{Metadata: catalog.Metadata{UID: fmt.Sprintf("policy-%d", i)}}
			source, other := app, extra
			source.Repository, other.Repository = policy.UID, policy.UID
			f.sight.Policies = append(f.sight.Policies, policy)
			f.sight.Members[policy.UID] = []drive.Seen{
				seen("a"+policy.UID, []catalog.HeldSource{content(source, "c2")}, content(source, "c1")),
				seen("b"+policy.UID, []catalog.HeldSource{content(other, "c2")}),
			}
		}
		w := drive.NewWork(drive.Params{Store: f, Fleet: f, Sources: f, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}, 1)
		for range 3 {
			begun := time.Now()
			if _, err := w.Round(t.Context(), time.Now(), true); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("got a round of %v, want 5s at most", took)
			}
		}
		if f.asked == 0 || f.asked > 3 {
			t.Errorf("asked %d times in three rounds, want one question that is given up in each", f.asked)
		}
	})
}

// calm is idle, and notes its calls while it is held.
type calm struct {
	idle

	isStill bool
	asked   []string
}

func (f *calm) Watch() drive.Watch { return f }

func (f *calm) Still(look func()) {
	f.isStill = true
	look()
	f.isStill = false
}

func (f *calm) Look(_ []catalog.Key, isAll bool) drive.Sight {
	f.asked = append(f.asked, fmt.Sprintf("look at all: %t, still: %t", isAll, f.isStill))
	return f.sight
}

func (f *calm) announced() ([]catalog.Key, bool) {
	f.asked = append(f.asked, fmt.Sprintf("keys, still: %t", f.isStill))
	return nil, false
}

// TestRoundsLookAtOneState makes rounds: what one acts on was announced and read while nothing
// changed, and nothing waits for the long reading of each service that comes before.
func TestRoundsLookAtOneState(t *testing.T) {
	t.Parallel()
	metrics, err := drive.NewMetrics(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	f := &calm{}
	w := drive.NewWork(drive.Params{Store: f, Fleet: f, Sources: f, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}, 1)
	w.Announce(f.announced)
	now := time.Now()
	for range 2 {
		if _, err := w.Round(t.Context(), now, true); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"keys, still: false", "look at all: true, still: false", "keys, still: true", "look at all: false, still: true",
		"keys, still: true", "look at all: false, still: true",
	}
	if !slices.Equal(f.asked, want) {
		t.Errorf("got\n%s", strings.Join(f.asked, "\n"))
	}
}
