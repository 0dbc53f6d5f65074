// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// rows returns what reads all rows of the subject's database.
func (s subject) rows(t *testing.T) func(t *testing.T) any {
	t.Helper()
	db := s.raw(t)
	return func(t *testing.T) any { return rowsOf(t, db) }
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

// stagedFleet is a rollout policy, and what its leader writes.
type stagedFleet struct {
	store  drive.Store
	policy string
	// begun counts the rollouts.
	begun int64
	// wishes are configurations that are not stored yet.
	wishes []drive.ConfigWish
}

func newStagedFleet(t *testing.T, s subject, store drive.Store) *stagedFleet {
	t.Helper()
	apply(t, s, &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}})
	f := &stagedFleet{store: store, policy: catalog.PlainOf[*catalog.RolloutPolicy](changes(t, s, 0).Plain)[0].UID}
	apply(t, s, cluster("one"), repository("demo"))
	for i := range 16 {
		name := fmt.Sprint("w", i)
		apply(t, s, configured(name, &catalog.Config{Values: values{"NAME": name}}))
	}
	for _, service := range changes(t, s, 0).Services {
		f.wishes = append(f.wishes, drive.ConfigWish{Name: service.ConfigName, Service: service})
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
func (f *stagedFleet) begin() drive.Step {
	f.begun++
	return drive.Step{
		Record: &drive.Record{
			ID: fmt.Sprint("run ", f.begun), PolicyUID: f.policy, Number: f.begun, Run: rollout.Run{Header: rollout.Header{Seq: 1, Decided: 1}},
		},
		Events:     []rollout.Event{{Kind: rollout.Tick}},
		Decisions:  []rollout.Decision{{Kind: rollout.Ask, Number: 1}},
		Admissions: []catalog.Admission{admissionOf(f.begun)},
	}
}

// latest returns the latest rollout.
func (f *stagedFleet) latest(ctx context.Context) (*drive.Record, error) {
	heads, err := f.store.Heads(ctx)
	if err != nil || len(heads) != 1 {
		return nil, fmt.Errorf("got heads %v: %w", heads, err)
	}
	return f.store.Record(ctx, heads[0].ID)
}

// follow returns the step after a state: an event that the person makes, a decision and an admission.
func follow(record *drive.Record, person string) drive.Step {
	next := *record
	next.Run.Seq++
	next.Run.Decided++
	return drive.Step{
		Record:     &next,
		Events:     []rollout.Event{{Kind: rollout.Membership, Person: person, Joined: []rollout.Member{{UID: person}}}},
		Decisions:  []rollout.Decision{{Kind: rollout.Ask, Number: next.Run.Decided}},
		Admissions: []catalog.Admission{admissionOf(record.Number*1000 + record.Version)},
	}
}

func (f *stagedFleet) fenced(t *testing.T, s subject, store election.Store) electiontest.Fenced {
	t.Helper()
	admitted := int64(1e6)
	return electiontest.Fenced{Store: store, Rows: s.rows(t), Writes: map[string]func(context.Context, int64) error{
		"configuration": func(ctx context.Context, term int64) error {
			_, err := f.store.KeepConfigs(ctx, term, f.wishes[:1])
			if err == nil {
				f.wishes = f.wishes[1:]
			}
			return err
		},
		"admission": func(ctx context.Context, term int64) error {
			admitted++
			return f.store.Save(ctx, term, drive.Step{Admissions: []catalog.Admission{admissionOf(admitted)}})
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
	stored := sqlstore.RolloutsOf(s.Store)
	electiontest.Check(t, newStagedFleet(t, s, stored).fenced(t, s, stored))
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
		if err := save(); !errors.Is(err, drive.ErrMoved) {
			t.Errorf("%s: got %v, want %v", when, err, drive.ErrMoved)
		}
		if diff := cmp.Diff(before, rowsOf(t, db)); diff != "" {
			t.Errorf("%s: wrote (-before +after):\n%s", when, diff)
		}
	}
	tell := func(record *drive.Record) error {
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
	told := electiontest.Contend(t, f.fenced(t, s, stored), func(ctx context.Context, term int64) error {
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
	electiontest.WantInTurn(t, terms, told)
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
func fencedSources(t *testing.T, s subject, store fleetsync.Store, of election.Store) electiontest.Fenced {
	t.Helper()
	apply(t, s, repository("demo"), cluster("first"), &catalog.FleetSource{
		Metadata: catalog.Metadata{Name: "gitops"}, Spec: catalog.FleetSourceSpec{Source: catalog.Source{Repository: "demo"}},
	})
	uid := changes(t, s, 0).FleetSources[0].UID
	made := int64(0)
	return electiontest.Fenced{Store: of, Rows: s.rows(t), Writes: map[string]func(context.Context, int64) error{
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
	stored := sqlstore.FleetSourcesOf(s.Store)
	electiontest.Check(t, fencedSources(t, s, stored, stored))
}

// testFleetSourceContention has replicas depose each other while they edit the catalog. The revisions of the
// edits show their order.
func testFleetSourceContention(t *testing.T, s subject) {
	store := sqlstore.FleetSourcesOf(s.Store)
	f := fencedSources(t, s, store, store)
	var made atomic.Int64
	told := electiontest.Contend(t, f, func(ctx context.Context, term int64) error {
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
	electiontest.WantInTurn(t, terms, told)
}

func testNotificationFence(t *testing.T, s subject) {
	store := sqlstore.NotificationsOf(s.Store)
	made := apply(t, s, &catalog.Notifier{Metadata: catalog.Metadata{Name: "ops"}, Spec: catalog.NotifierSpec{
		Sink: catalog.Sink{Type: catalog.SinkWebhook}, Secrets: catalog.NotifierSecrets{URL: "https://hooks.example"},
	}})
	item := notify.Item{NotifierUID: made[0].Object.Meta().UID, Cause: "x", Message: notice.Message{ID: "a", Kind: notice.ServiceFailed, Count: 1}}
	writes := int64(0)
	f := electiontest.Fenced{Store: store, Rows: s.rows(t), Writes: map[string]func(context.Context, int64) error{
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
	term := electiontest.Claim(t, f, "writes the message")
	if err := errors.Join(store.Save(t.Context(), term, notify.Batch{Added: []notify.Item{item}}), store.Resign(t.Context(), term)); err != nil {
		t.Fatal(err)
	}
	electiontest.Check(t, f)
}
