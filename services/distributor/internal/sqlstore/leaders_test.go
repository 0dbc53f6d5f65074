// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// linkedRollouts are the rollouts of a store, behind a link.
type linkedRollouts struct {
	drive.Store
	*electiontest.Link
}

func (s linkedRollouts) Heads(ctx context.Context) (heads []drive.Head, err error) {
	err = s.Read(func() error { heads, err = s.Store.Heads(ctx); return err })
	return heads, err
}

func (s linkedRollouts) Record(ctx context.Context, id string) (record *drive.Record, err error) {
	err = s.Read(func() error { record, err = s.Store.Record(ctx, id); return err })
	return record, err
}

func (s linkedRollouts) Save(ctx context.Context, term int64, step drive.Step) error {
	return s.InTerm(term, func() error { return s.Store.Save(ctx, term, step) })
}

// testRolloutLink holds the link to the port: one without a fault changes nothing.
func testRolloutLink(t *testing.T, s subject) {
	stored, link := sqlstore.RolloutsOf(s.Store), new(electiontest.Link)
	electiontest.Check(t, newStagedFleet(t, s, linkedRollouts{stored, link}).fenced(t, s, link.Election(stored)))
}

// stagedWork is a rollout to six services, one after another. Agents run what the replica's view admits at once.
type stagedWork struct {
	subject

	policy   *catalog.RolloutPolicy
	services []*catalog.Service

	mu   sync.Mutex
	live catalog.HeldSource
}

const stagedMembers = 6

func newStagedWork(t *testing.T) electiontest.Contest {
	w := &stagedWork{subject: subject{Store: open(t, sqliteURL(t))}, live: heldAt("c1")[0]}
	apply(t, w.subject, &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}, Spec: catalog.RolloutPolicySpec{
		Strategy: rollout.Strategy{
			Waves:          []rollout.Wave{{Name: "canary", Percent: 10, Soak: time.Minute}},
			MaxUnavailable: rollout.Share{Count: 1},
		},
	}})
	w.policy = catalog.PlainOf[*catalog.RolloutPolicy](changes(t, w.subject, 0).Plain)[0]
	for i := range stagedMembers {
		name := fmt.Sprint("s", i)
		w.services = append(w.services, &catalog.Service{
			Metadata: catalog.Metadata{UID: name, Name: name},
			Spec:     catalog.ServiceSpec{Cluster: name, Sources: []catalog.Source{w.live.Source}},
		})
	}
	return w
}

// stagedView is one replica's view of the fleet.
type stagedView struct {
	*stagedWork
	*electiontest.Link

	mu       sync.Mutex
	admitted map[string]catalog.Admission
}

func (v *stagedView) Refresh(ctx context.Context) error {
	return v.Read(func() error {
		now, err := v.Changes(ctx, 0)
		if err != nil {
			return err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.admitted = map[string]catalog.Admission{}
		for _, a := range now.Admissions {
			v.admitted[a.ServiceUID] = a
		}
		return nil
	})
}

func (*stagedView) IsNeeded() bool    { return true }
func (*stagedView) Still(look func()) { look() }

func (*stagedView) Layers([]*catalog.Service) []string { return nil }

func (*stagedView) Revision() int64 { return 0 }

func (*stagedView) Behind() func(*catalog.Service) bool {
	return func(*catalog.Service) bool { return false }
}

func (*stagedView) ClusterOf(*catalog.Service) *catalog.Cluster { return nil }

func (v *stagedView) Watch() drive.Watch { return v }

func (v *stagedView) Look([]catalog.Key, bool) drive.Sight {
	v.stagedWork.mu.Lock()
	live := v.live
	v.stagedWork.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	var members []drive.Seen
	for _, service := range v.services {
		seen := drive.Seen{
			Service: service, Spec: service.Spec.Staged(), Live: []catalog.HeldSource{live}, IsOnline: true, Config: catalog.NoConfig, Report: &catalog.ServiceReport{},
		}
		if held, ok := v.admitted[service.UID]; ok {
			seen.Held = &held
			seen.Report = &catalog.ServiceReport{
				Phase: catalog.PhaseHealthy, ObservedSpecDigest: plan.SpecDigest(held.SpecFor(service.Spec), nil),
				AppliedDigests: []string{held.Content[0].Snapshot.Digest.String()},
			}
		}
		members = append(members, seen)
	}
	return drive.Sight{Policies: []*catalog.RolloutPolicy{v.policy}, Members: map[string][]drive.Seen{v.policy.UID: members}}
}

func (w *stagedWork) Replica(t *testing.T, holder string, l *electiontest.Link) func(ctx context.Context) error {
	t.Helper()
	metrics, err := drive.NewMetrics(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	return drive.NewDriver(drive.Params{
		Store: linkedRollouts{sqlstore.RolloutsOf(w.Store), l}, Election: l.Election(w.Election()), Fleet: &stagedView{stagedWork: w, Link: l},
		Objects: fanout.NewHub[catalog.Key](0), Metrics: metrics, Logger: slog.New(slog.NewTextHandler(l, nil)), Holder: holder,
	}).Run
}

func (w *stagedWork) Election() election.Store { return sqlstore.RolloutsOf(w.Store) }

func (w *stagedWork) GiveWork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = heldAt("c2")[0]
}

func (w *stagedWork) IsDone(t *testing.T) bool {
	t.Helper()
	log, err := sqlstore.RolloutsOf(w.Store).Log(t.Context(), w.policy.UID, 0)
	if errors.Is(err, drive.ErrNotFound) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return log.Record.Run.State.HasEnded()
}

func (w *stagedWork) Check(t *testing.T) {
	t.Helper()
	log, err := sqlstore.RolloutsOf(w.Store).Log(t.Context(), w.policy.UID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := log.Replay(); diff != "" || log.Record.Run.State != rollout.Completed || log.Record.Number != 1 {
		t.Errorf("got rollout %d, %s, want the first, completed; replay: %s", log.Record.Number, log.Record.Run.State, diff)
	}
	admitted := map[string]int{}
	for _, d := range log.Decisions {
		if d.Kind == rollout.Admit || d.Kind == rollout.Withdraw {
			admitted[d.Member]++
		}
	}
	all := changes(t, w.subject, 0).Admissions
	if len(admitted) != stagedMembers || len(all) != stagedMembers {
		t.Errorf("got decisions about %v and %d admissions, want %d", admitted, len(all), stagedMembers)
	}
	for _, a := range all {
		if admitted[a.ServiceUID] != 1 || a.Content[0].Snapshot.Commit != "c2" {
			t.Errorf("%s was admitted %d times, and has %s", a.ServiceUID, admitted[a.ServiceUID], a.Content[0].Snapshot.Commit)
		}
	}
}

// TestRolloutsHaveOneLeader has something happen to the leader of a rollout. Each service is admitted once, and
// the log replays, as if nothing had happened.
func TestRolloutsHaveOneLeader(t *testing.T) {
	t.Parallel()
	electiontest.Contests(t, "another replica drives the rollouts now", newStagedWork)
}
