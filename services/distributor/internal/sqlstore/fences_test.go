// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/notice"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// election is the part of a port that elects its leader. L is what a replica sees of the lead.
type election[L comparable] interface {
	Lead(ctx context.Context) (L, error)
	Claim(ctx context.Context, holder string, seen L) (term int64, ok bool, err error)
	Beat(ctx context.Context, term int64) error
	Resign(ctx context.Context, term int64) error
}

// fenced is a port that one replica at a time writes to.
type fenced[L comparable] struct {
	election[L]

	deposed error
	// writes are the writes of a leader. Each changes the database whenever its term lasts.
	writes map[string]func(ctx context.Context, term int64) error
}

func (f fenced[L]) see(t *testing.T) L {
	t.Helper()
	seen, err := f.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// claim claims the lead from a sight that is not outdated.
func (f fenced[L]) claim(t *testing.T, holder string) (term int64) {
	t.Helper()
	term, ok, err := f.Claim(t.Context(), holder, f.see(t))
	if err != nil || !ok {
		t.Fatalf("claim of %s: got %v, %v", holder, ok, err)
	}
	return term
}

// wantDeposed makes all writes of a term, which must fail and leave each row of the database as it is.
func (f fenced[L]) wantDeposed(t *testing.T, db *sql.DB, when string, term int64) {
	t.Helper()
	writes := maps.Clone(f.writes)
	writes["beat"], writes["resign"] = f.Beat, f.Resign
	for _, name := range slices.Sorted(maps.Keys(writes)) {
		before := rowsOf(t, db)
		if err := writes[name](t.Context(), term); !errors.Is(err, f.deposed) {
			t.Errorf("%s of term %d, %s: got %v, want %v", name, term, when, err, f.deposed)
		}
		if diff := cmp.Diff(before, rowsOf(t, db)); diff != "" {
			t.Errorf("%s of term %d, %s, wrote (-before +after):\n%s", name, term, when, diff)
		}
	}
}

// wantWritten makes all writes of a term that lasts.
func (f fenced[L]) wantWritten(t *testing.T, db *sql.DB, when string, term int64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(f.writes)) {
		before := rowsOf(t, db)
		if err := f.writes[name](t.Context(), term); err != nil {
			t.Errorf("%s of term %d, %s: %v", name, term, when, err)
		}
		if cmp.Equal(before, rowsOf(t, db)) {
			t.Errorf("%s of term %d, %s, wrote nothing: it shows nothing after the term either", name, term, when)
		}
	}
}

// checkFence holds a port to its promise: a replica writes in its term, and never before or after it.
func checkFence[L comparable](t *testing.T, db *sql.DB, f fenced[L]) {
	t.Helper()
	f.wantDeposed(t, db, "which is nobody's", 0)
	first := f.see(t)
	terms := make(chan int64, 8)
	var replicas sync.WaitGroup
	for i := range cap(terms) {
		replicas.Go(func() {
			term, ok, err := f.Claim(t.Context(), fmt.Sprint("replica ", i), first)
			if err != nil {
				t.Error(err)
			}
			if ok {
				terms <- term
			}
		})
	}
	replicas.Wait()
	if len(terms) != 1 {
		t.Fatalf("%d replicas won the lead that all of them saw, want one", len(terms))
	}
	early := <-terms
	f.wantWritten(t, db, "while it lasts", early)
	f.wantDeposed(t, db, "which has not begun", early+1)

	outdated := f.see(t)
	if err := f.Beat(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	before := rowsOf(t, db)
	if _, ok, err := f.Claim(t.Context(), "slow", outdated); ok || err != nil {
		t.Errorf("claim from before a beat: got %v, %v, want a refusal: the leader lives", ok, err)
	}
	if diff := cmp.Diff(before, rowsOf(t, db)); diff != "" {
		t.Errorf("a claim that was refused wrote (-before +after):\n%s", diff)
	}

	late := f.claim(t, "second")
	if late <= early {
		t.Errorf("got term %d after %d, want a later one", late, early)
	}
	f.wantDeposed(t, db, "after another claim", early)
	f.wantWritten(t, db, "after it was claimed", late)

	if err := f.Resign(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	f.wantDeposed(t, db, "after it was resigned", late)
	last := f.claim(t, "third")
	f.wantDeposed(t, db, "after it was resigned and another claim", late)
	f.wantWritten(t, db, "after another was resigned", last)
}

// rowsOf returns all rows of a database as text, by table, without the order in which they are stored.
func rowsOf(t *testing.T, db *sql.DB) map[string][]string {
	t.Helper()
	names, err := textsOf(t, db, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil {
		names, err = textsOf(t, db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
	}
	if err != nil || len(names) < 20 {
		t.Fatalf("got tables %v, %v", names, err)
	}
	all := map[string][]string{}
	for _, name := range names {
		if all[name], err = textsOf(t, db, "SELECT * FROM "+name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// textsOf returns the rows of a query as texts, sorted.
func textsOf(t *testing.T, db *sql.DB, query string) (texts []string, err error) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // only read
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		fields := make([]string, len(columns))
		for i, value := range values {
			fields[i] = value.String
		}
		texts = append(texts, strings.Join(fields, " | "))
	}
	slices.Sort(texts)
	return texts, rows.Err()
}

// contend has replicas claim the lead again and again, without waiting for a silence, and write as long as
// they are not deposed. It ends once enough was written and enough leaders were deposed in the middle of their
// work. write must fail only if the leader is deposed. The result is how many writes were made in each term.
func contend[L comparable](t *testing.T, f fenced[L], write func(ctx context.Context, term int64) error) map[int64]int {
	t.Helper()
	const contenders, enoughWritten, enoughDeposed = 4, 100, 20
	var written, deposed atomic.Int64
	var mu sync.Mutex
	perTerm := map[int64]int{}
	// work is a term until its end, or until the leader resigns after some writes.
	work := func(term int64) error {
		for i := range 8 {
			if err := write(t.Context(), term); err != nil {
				return err
			}
			mu.Lock()
			perTerm[term]++
			mu.Unlock()
			if written.Add(1); i == 7 {
				return f.Resign(t.Context(), term)
			}
		}
		return nil
	}
	var replicas sync.WaitGroup
	for i := range contenders {
		replicas.Go(func() {
			for !t.Failed() && (written.Load() < enoughWritten || deposed.Load() < enoughDeposed) {
				seen, err := f.Lead(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				term, ok, err := f.Claim(t.Context(), fmt.Sprint("replica ", i), seen)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					continue
				}
				switch err := work(term); {
				case errors.Is(err, f.deposed):
					deposed.Add(1)
				case err != nil:
					t.Errorf("term %d: got %v, want %v or a write", term, err, f.deposed)
				}
			}
		})
	}
	replicas.Wait()
	return perTerm
}

// wantInTurn compares writes, in their stored order, by their terms. No term goes back, and each has as many
// as its leader was told.
func wantInTurn(t *testing.T, stored []int64, told map[int64]int) {
	t.Helper()
	if !slices.IsSorted(stored) {
		t.Errorf("got writes of the terms %v, want those of no term after those of a later one", stored)
	}
	found := map[int64]int{}
	for _, term := range stored {
		found[term]++
	}
	if diff := cmp.Diff(told, found); diff != "" {
		t.Errorf("writes by term (-as leaders were told, +stored):\n%s", diff)
	}
}

// stagedFleet is a rollout policy, and what its leader writes.
type stagedFleet struct {
	store  rollouts.Store
	policy string
	// begun counts the rollouts.
	begun int64
	// wishes are configurations that are not stored yet.
	wishes []rollouts.ConfigWish
}

func newStagedFleet(t *testing.T, s subject, store rollouts.Store) *stagedFleet {
	t.Helper()
	apply(t, s, &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}})
	f := &stagedFleet{store: store, policy: changes(t, s, 0).Policies[0].UID}
	apply(t, s, cluster("one"), repository("demo"))
	for i := range 16 {
		name := fmt.Sprint("w", i)
		apply(t, s, configured(name, &catalog.Config{Values: values{"NAME": name}}))
	}
	for _, service := range changes(t, s, 0).Services {
		f.wishes = append(f.wishes, rollouts.ConfigWish{Name: service.ConfigName, Service: service})
	}
	return f
}

// admissionOf returns one that no earlier one equals.
func admissionOf(of int64) catalog.Admission {
	return catalog.Admission{
		ServiceUID: "a", Service: "a@one", Content: heldAt(fmt.Sprint("commit ", of)), Spec: stagedAt(fmt.Sprint(of)),
	}
}

// begin returns the next rollout.
func (f *stagedFleet) begin() rollouts.Step {
	f.begun++
	return rollouts.Step{
		Record: &rollouts.Record{
			ID: fmt.Sprint("run ", f.begun), PolicyUID: f.policy, Number: f.begun, Run: rollout.Run{Header: rollout.Header{Seq: 1, Decided: 1}},
		},
		Events:     []rollout.Event{{Kind: rollout.Tick}},
		Decisions:  []rollout.Decision{{Kind: rollout.Ask, Number: 1}},
		Admissions: []catalog.Admission{admissionOf(f.begun)},
	}
}

// latest returns the latest rollout.
func (f *stagedFleet) latest(ctx context.Context) (*rollouts.Record, error) {
	heads, err := f.store.Heads(ctx)
	if err != nil || len(heads) != 1 {
		return nil, fmt.Errorf("got heads %v: %w", heads, err)
	}
	return f.store.Record(ctx, heads[0].ID)
}

// follow returns the step after a state: an event that the person makes, a decision and an admission.
func follow(record *rollouts.Record, person string) rollouts.Step {
	next := *record
	next.Run.Seq++
	next.Run.Decided++
	return rollouts.Step{
		Record:     &next,
		Events:     []rollout.Event{{Kind: rollout.Membership, Person: person, Joined: []rollout.Member{{UID: person}}}},
		Decisions:  []rollout.Decision{{Kind: rollout.Ask, Number: next.Run.Decided}},
		Admissions: []catalog.Admission{admissionOf(record.Number*1000 + record.Version)},
	}
}

func (f *stagedFleet) fenced() fenced[rollouts.Lead] {
	admitted := int64(1e6)
	return fenced[rollouts.Lead]{election: f.store, deposed: rollouts.ErrDeposed, writes: map[string]func(context.Context, int64) error{
		"configuration": func(ctx context.Context, term int64) error {
			_, err := f.store.KeepConfigs(ctx, term, f.wishes[:1])
			if err == nil {
				f.wishes = f.wishes[1:]
			}
			return err
		},
		"admission": func(ctx context.Context, term int64) error {
			admitted++
			return f.store.Save(ctx, term, rollouts.Step{Admissions: []catalog.Admission{admissionOf(admitted)}})
		},
		"begin": func(ctx context.Context, term int64) error {
			return f.store.Save(ctx, term, f.begin())
		},
		"step": func(ctx context.Context, term int64) error {
			record, err := f.latest(ctx)
			if err != nil {
				record = f.begin().Record // no rollout has begun
			}
			return f.store.Save(ctx, term, follow(record, "nobody"))
		},
	}}
}

func testRolloutFence(t *testing.T, s subject) {
	checkFence(t, s.raw(t), newStagedFleet(t, s, sqlstore.RolloutsOf(s.Store)).fenced())
}

// testRolloutMoved saves steps after states that are not the latest. Each fails as a whole: the beat that goes
// with it is not counted either.
func testRolloutMoved(t *testing.T, s subject) {
	stored, term := led(t, s)
	f, db := newStagedFleet(t, s, stored), s.raw(t)
	if err := stored.Save(t.Context(), term, f.begin()); err != nil {
		t.Fatal(err)
	}
	old, err := f.latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantMoved := func(when string, save func() error) {
		t.Helper()
		before := rowsOf(t, db)
		if err := save(); !errors.Is(err, rollouts.ErrMoved) {
			t.Errorf("%s: got %v, want %v", when, err, rollouts.ErrMoved)
		}
		if diff := cmp.Diff(before, rowsOf(t, db)); diff != "" {
			t.Errorf("%s: wrote (-before +after):\n%s", when, diff)
		}
	}
	tell := func(record *rollouts.Record) error {
		change := catalog.Change{Verb: catalog.VerbSync, Kind: "RolloutPolicy", Name: "waves"}
		return stored.Tell(t.Context(), change, follow(record, "ada"))
	}
	if err := tell(old); err != nil {
		t.Fatal(err)
	}
	wantMoved("leader, after a person", func() error { return stored.Save(t.Context(), term, follow(old, "leader")) })
	wantMoved("person, after another", func() error { return tell(old) })
	next, err := f.latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stored.Save(t.Context(), term, follow(next, "leader")); err != nil {
		t.Fatal(err)
	}
	wantMoved("person, after the leader", func() error { return tell(next) })
	unknown := *next
	unknown.ID = "no such run"
	wantMoved("leader, of a rollout that is gone", func() error { return stored.Save(t.Context(), term, follow(&unknown, "leader")) })
	if _, err := catalog.NewEditor(s).Delete(t.Context(), catalog.Key{Kind: catalog.KindRolloutPolicy, Name: "waves"}); err != nil {
		t.Fatal(err)
	}
	wantMoved("leader, of a policy that is gone", func() error { return stored.Save(t.Context(), term, f.begin()) })
}

// testRolloutContention has replicas depose each other in the middle of one rollout. A leader reads in its term,
// so nothing but the end of the term comes between what it reads and what it saves.
func testRolloutContention(t *testing.T, s subject) {
	stored, term := led(t, s)
	f := newStagedFleet(t, s, stored)
	if err := stored.Save(t.Context(), term, f.begin()); err != nil {
		t.Fatal(err)
	}
	told := contend(t, f.fenced(), func(ctx context.Context, term int64) error {
		record, err := f.latest(ctx)
		if err != nil {
			return err
		}
		return stored.Save(ctx, term, follow(record, fmt.Sprint(term)))
	})
	log, err := stored.Log(t.Context(), f.policy, 0)
	if err != nil {
		t.Fatal(err)
	}
	var terms []int64
	for _, e := range log.Events[1:] {
		terms = append(terms, numberOf(t, e.Person))
	}
	wantInTurn(t, terms, told)
	if n := int64(len(log.Events)); log.Record.Version != n || log.Record.Run.Seq != n || int64(len(log.Decisions)) != n {
		t.Errorf("got version %d, %d events and %d decisions of %d steps", log.Record.Version, log.Record.Run.Seq, len(log.Decisions), n)
	}
}

func numberOf(t *testing.T, text string) (number int64) {
	t.Helper()
	if _, err := fmt.Sscan(text, &number); err != nil {
		t.Fatal(err)
	}
	return number
}

// fencedSources returns what a leader of fleet sources writes. The catalog holds the source gitops.
func fencedSources(t *testing.T, s subject, store fleetsync.Store) fenced[fleetsync.Lead] {
	t.Helper()
	apply(t, s, repository("demo"), cluster("first"), &catalog.FleetSource{
		Metadata: catalog.Metadata{Name: "gitops"}, Spec: catalog.FleetSourceSpec{Source: catalog.Source{Repository: "demo"}},
	})
	uid := changes(t, s, 0).FleetSources[0].UID
	made := int64(0)
	return fenced[fleetsync.Lead]{election: store, deposed: fleetsync.ErrDeposed, writes: map[string]func(context.Context, int64) error{
		"state": func(ctx context.Context, term int64) error {
			made++
			state := fleetsync.State{Commit: fmt.Sprint("commit ", made), LookedAt: time.Unix(made, 0)}
			documents := []fleetsync.Document{{Position: fmt.Sprint(made), Action: fleetsync.ActionCreated}}
			return store.Save(ctx, term, uid, state, documents)
		},
		"state of a source that is gone": func(ctx context.Context, term int64) error {
			return store.Save(ctx, term, "gone", fleetsync.State{}, nil)
		},
		"edit": func(ctx context.Context, term int64) error {
			made++
			_, err := catalog.NewEditor(store.Fenced(term)).Apply(ctx, []catalog.Object{cluster(fmt.Sprint("c", made))}, false)
			return err
		},
		"removal": func(ctx context.Context, term int64) error {
			name := changes(t, s, 0).Clusters[0].Name
			_, err := catalog.NewEditor(store.Fenced(term)).Delete(ctx, cluster(name).Key())
			return err
		},
	}}
}

func testFleetSourceFence(t *testing.T, s subject) {
	checkFence(t, s.raw(t), fencedSources(t, s, sqlstore.FleetSourcesOf(s.Store)))
}

// testFleetSourceContention has replicas depose each other while they edit the catalog. The revisions of the
// edits show their order.
func testFleetSourceContention(t *testing.T, s subject) {
	store := sqlstore.FleetSourcesOf(s.Store)
	f := fencedSources(t, s, store)
	var made atomic.Int64
	told := contend(t, f, func(ctx context.Context, term int64) error {
		c := cluster(fmt.Sprint("made-", made.Add(1)))
		c.Labels = map[string]string{"term": fmt.Sprint(term)}
		_, err := catalog.NewEditor(store.Fenced(term)).Apply(ctx, []catalog.Object{c}, false)
		return err
	})
	clusters := changes(t, s, 0).Clusters
	slices.SortFunc(clusters, func(a, b *catalog.Cluster) int { return int(a.ResourceVersion - b.ResourceVersion) })
	var terms []int64
	for _, c := range clusters[1:] {
		terms = append(terms, numberOf(t, c.Labels["term"]))
	}
	wantInTurn(t, terms, told)
}

func testNotificationFence(t *testing.T, s subject) {
	store := sqlstore.NotificationsOf(s.Store)
	made := apply(t, s, &catalog.Notifier{Metadata: catalog.Metadata{Name: "ops"}, Spec: catalog.NotifierSpec{
		Sink: catalog.Sink{Type: catalog.SinkWebhook}, Secrets: catalog.NotifierSecrets{URL: "https://hooks.example"},
	}})
	item := notify.Item{NotifierUID: made[0].Object.Meta().UID, Cause: "x", Message: notice.Message{ID: "a", Kind: notice.ServiceFailed, Count: 1}}
	writes := int64(0)
	f := fenced[notify.Lead]{election: store, deposed: notify.ErrDeposed, writes: map[string]func(context.Context, int64) error{
		"states": func(ctx context.Context, term int64) error {
			writes++
			states := map[string]notify.State{fmt.Sprint("Service/", writes): {Class: notify.Healthy}}
			return store.Save(ctx, term, notify.Batch{States: states})
		},
		"take": func(ctx context.Context, term int64) error {
			writes++
			items, err := store.Take(ctx, term, time.Unix(10*writes, 0), time.Unix(10*writes+1, 0), nil, 1)
			if err == nil && len(items) != 1 {
				return fmt.Errorf("took %v, want the message that is due", items)
			}
			return err
		},
		"forget": store.Forget,
		"settle": func(ctx context.Context, term int64) error { return store.Settle(ctx, term, notify.Verdict{}) },
	}}
	term := f.claim(t, "writes the message")
	if err := errors.Join(store.Save(t.Context(), term, notify.Batch{Added: []notify.Item{item}}), store.Resign(t.Context(), term)); err != nil {
		t.Fatal(err)
	}
	checkFence(t, s.raw(t), f)
}
