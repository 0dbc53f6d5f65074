// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// linkedSources are the fleet sources of a store, behind a link.
type linkedSources struct {
	fleetsync.Store
	*electiontest.Link
}

func (s linkedSources) Orders(ctx context.Context) (orders map[string]fleetsync.Order, err error) {
	err = s.Read(func() error { orders, err = s.Store.Orders(ctx); return err })
	return orders, err
}

func (s linkedSources) Save(
	ctx context.Context, term int64, uid string, state fleetsync.State, documents []fleetsync.Document,
) error {
	return s.InTerm(term, func() error { return s.Store.Save(ctx, term, uid, state, documents) })
}

func (s linkedSources) Fenced(term int64) catalog.Editable {
	return linkedEdits{s.Store.Fenced(term), s.Link, term}
}

type linkedEdits struct {
	catalog.Editable
	link *electiontest.Link
	term int64
}

func (e linkedEdits) Edit(ctx context.Context, fn func(ctx context.Context, tx catalog.Tx) error) error {
	return e.link.InTerm(e.term, func() error { return e.Editable.Edit(ctx, fn) })
}

// testFleetSourceLink holds the link to the port: one without a fault changes nothing.
func testFleetSourceLink(t *testing.T, s subject) {
	stored, link := sqlstore.FleetSourcesOf(s.Store), new(electiontest.Link)
	electiontest.Check(t, fencedSources(t, s, linkedSources{stored, link}, link.Election(stored)))
}

// sourceWork is a fleet source whose commits come one after another. Each drops the oldest cluster and adds one.
// Each describes so many that removals of several commits together need no confirmation.
type sourceWork struct {
	subject

	mu     sync.Mutex
	number int // of the latest commit
}

const (
	sourceCommits = 8
	commitEvery   = 20 * time.Second
	perCommit     = 12
)

func newSourceWork(t *testing.T) electiontest.Contest {
	w := &sourceWork{subject: subject{Store: open(t, sqliteURL(t))}, number: 1}
	apply(t, w.subject, repository("demo"), &catalog.FleetSource{Metadata: catalog.Metadata{Name: "gitops"}, Spec: catalog.FleetSourceSpec{
		Source: catalog.Source{Repository: "demo"}, Interval: 10 * time.Second, Hub: true, Role: "admin",
	}})
	return w
}

func (w *sourceWork) GiveWork() {
	go func() {
		tick := time.NewTicker(commitEvery)
		defer tick.Stop()
		for i := range sourceCommits - 1 {
			if i > 0 {
				<-tick.C
			}
			w.mu.Lock()
			w.number++
			w.mu.Unlock()
		}
	}()
}

// content returns the latest commit and its files.
func (w *sourceWork) content() (snapshot catalog.Snapshot, packed []byte, err error) {
	w.mu.Lock()
	number := w.number
	w.mu.Unlock()
	var plain, compressed bytes.Buffer
	writer := bundle.NewWriter(&plain, bundle.Limits{})
	for i := range perCommit {
		if err := writer.WriteFile(fmt.Sprintf("c%02d.yaml", number+i), false, 0, strings.NewReader("")); err != nil {
			return snapshot, nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return snapshot, nil, err
	}
	z, err := bundle.Compress(&compressed)
	if err != nil {
		return snapshot, nil, err
	}
	if _, err := z.Write(plain.Bytes()); err != nil {
		return snapshot, nil, err
	}
	if err := z.Close(); err != nil {
		return snapshot, nil, err
	}
	snapshot = catalog.Snapshot{
		Commit: fmt.Sprint("commit ", number), Digest: digest.FromBytes(plain.Bytes()), ContentSize: int64(plain.Len()), Files: perCommit,
	}
	return snapshot, compressed.Bytes(), nil
}

// Resolve implements fleetsync.Upstream.
func (w *sourceWork) Resolve(context.Context, catalog.Source) (resolve.Answer, error) {
	snapshot, _, err := w.content()
	return resolve.Answer{Snapshot: snapshot}, err
}

// Push implements fleetsync.Upstream.
func (*sourceWork) Push() {}

// blob is a bundle in memory.
type blob struct{ *bytes.Reader }

func (blob) Close() error { return nil }

// Open implements fleetsync.Bundles.
func (w *sourceWork) Open(context.Context, plan.Bundle) (*cas.Blob, error) {
	_, packed, err := w.content()
	return &cas.Blob{ReadSeekCloser: blob{bytes.NewReader(packed)}}, err
}

// Parse implements fleetsync.Parser: a file describes the cluster of its name.
func (*sourceWork) Parse(_ *catalog.FleetSource, file string, _ io.Reader, _ *int) []fleetsync.Item {
	return []fleetsync.Item{{Position: file, Object: cluster(strings.TrimSuffix(file, ".yaml")), Locate: func(err error) (string, string) {
		return file, err.Error()
	}}}
}

// trusting is the guard of a source that may do everything.
type trusting struct{}

func (trusting) Guard(*catalog.FleetSource) catalog.Guard { return trusting{} }
func (trusting) Sees(catalog.Object) bool                 { return true }
func (trusting) MayNameAddresses() bool                   { return true }

func (trusting) MayCreate(context.Context, catalog.Finder, catalog.Object) error { return nil }

func (trusting) MayUpdate(context.Context, catalog.Finder, catalog.Object, catalog.Object) error {
	return nil
}

func (trusting) MayDelete(context.Context, catalog.Finder, catalog.Object) error { return nil }

// sourceView is one replica's view of the catalog.
type sourceView struct {
	*electiontest.Link

	store subject
	mu    sync.Mutex
	now   catalog.Changes
}

func (v *sourceView) Refresh(ctx context.Context) error {
	return v.Read(func() error {
		now, err := v.store.Changes(ctx, 0)
		if err != nil {
			return err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.now = now
		return nil
	})
}

func (v *sourceView) FleetSources() []*catalog.FleetSource {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now.FleetSources
}

func (v *sourceView) Managed(source catalog.SourceRef) (managed []catalog.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.now.Clusters {
		if c.Manager == source {
			managed = append(managed, c)
		}
	}
	return managed
}

func (v *sourceView) Version(key catalog.Key) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.now.Clusters {
		if c.Key() == key {
			return c.ResourceVersion
		}
	}
	return 0
}

func (w *sourceWork) Replica(t *testing.T, holder string, l *electiontest.Link) func(ctx context.Context) error {
	t.Helper()
	metrics, err := fleetsync.NewMetrics(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	view := &sourceView{Link: l, store: w.subject}
	if err := view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	leader := fleetsync.NewLeader(fleetsync.Params{
		Store: linkedSources{sqlstore.FleetSourcesOf(w.Store), l}, Election: l.Election(w.Election()), Fleet: view, Upstream: w, Bundles: w, Parser: w, Authority: trusting{},
		Editor: catalog.NewEditor, Objects: fanout.NewHub[catalog.Key](0), Metrics: metrics,
		Logger: slog.New(slog.NewTextHandler(l, nil)), Holder: holder,
	})
	return func(ctx context.Context) error {
		following, cancel := context.WithCancel(ctx)
		defer cancel()
		var follower sync.WaitGroup
		defer follower.Wait()
		defer cancel()
		follower.Go(func() { view.follow(following) })
		return leader.Run(ctx)
	}
}

// follow keeps the view as the store is, as every replica does.
func (v *sourceView) follow(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = v.Refresh(ctx) // is tried again
		}
	}
}

func (w *sourceWork) Election() election.Store { return sqlstore.FleetSourcesOf(w.Store) }

func (w *sourceWork) state(t *testing.T) fleetsync.State {
	t.Helper()
	uid := changes(t, w.subject, 0).FleetSources[0].UID
	states, err := sqlstore.FleetSourcesOf(w.Store).States(t.Context(), []string{uid})
	if err != nil {
		t.Fatal(err)
	}
	return states[uid]
}

func (w *sourceWork) IsDone(t *testing.T) bool {
	t.Helper()
	return w.state(t).Commit == fmt.Sprint("commit ", sourceCommits)
}

// Check looks for objects that were written, made or removed more than once.
func (w *sourceWork) Check(t *testing.T) {
	t.Helper()
	if state := w.state(t); state.Problem != nil || state.Managed != perCommit || state.Documents != perCommit {
		t.Errorf("got state %+v, want %d documents without a problem", state, perCommit)
	}
	now := changes(t, w.subject, 0)
	var names, want, gone []string
	for _, c := range now.Clusters {
		names = append(names, c.Name)
		if c.Generation != 1 || !c.UpdatedAt.Equal(c.CreatedAt) {
			t.Errorf("%s was written again", c.Name)
		}
	}
	for i := range perCommit {
		want = append(want, fmt.Sprintf("c%02d", sourceCommits+i))
	}
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("got clusters %v, want %v", names, want)
	}
	for _, deletion := range now.Deleted {
		gone = append(gone, deletion.Key.Name)
	}
	if slices.Sort(gone); !slices.Equal(gone, slices.Compact(slices.Clone(gone))) {
		t.Errorf("got removals of %v, want none twice", gone)
	}
}

// TestFleetSourcesHaveOneLeader has something happen to the leader while commits come. Each object is made once
// and removed once, as if nothing had happened.
func TestFleetSourcesHaveOneLeader(t *testing.T) {
	t.Parallel()
	electiontest.Contests(t, "another replica looks at the fleet sources now", newSourceWork)
}
