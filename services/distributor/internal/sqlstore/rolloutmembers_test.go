// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// sameRun compares rollouts as they are stored.
var sameRun = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(catalog.HeldSource{})}

// begunRun stores a new rollout of so many members of a policy, and returns it as it is read. The first of its
// waves orders members by a label, and the last member is one that the rollout does not change.
func begunRun(t *testing.T, s subject, stored *sqlstore.Rollouts, term int64, members int) *drive.Record {
	t.Helper()
	apply(t, s, &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}})
	record := &drive.Record{ID: "run", PolicyUID: catalog.PlainOf[*catalog.RolloutPolicy](changes(t, s, 0).Plain)[0].UID, Number: 1, Start: drive.Start{
		Candidate: rollout.Candidate{ID: "run", Generation: 1}, At: time.Unix(1e9, 0).UTC(),
		Strategy: rollout.Strategy{Waves: []rollout.Wave{{Name: "canary", OrderBy: "region", EachOf: "region"}}},
		Contents: map[string][]catalog.HeldSource{"old": heldAt("c1"), "new": heldAt("c2")},
	}}
	for i := range members {
		m := rollout.Member{
			UID: fmt.Sprintf("uid-%04d", i), Name: fmt.Sprintf("app-%d@one", i), Cluster: "one", From: "old", To: "new",
			ClusterLabels: map[string]string{"region": fmt.Sprint("r", i%3)},
		}
		if i == members-1 {
			m.To = m.From
		}
		record.Start.Members = append(record.Start.Members, m)
	}
	run, err := rollout.Begin(record.Start.Candidate, record.Start.Strategy, record.Start.Members, record.Start.At)
	if err != nil {
		t.Fatal(err)
	}
	record.Run = run
	record.Summarize()
	if err := stored.Save(t.Context(), term, drive.Step{Record: record}); err != nil {
		t.Fatal(err)
	}
	read, err := stored.Record(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// after returns the step of events.
func after(record *drive.Record, events ...rollout.Event) drive.Step {
	next := *record
	step := drive.Step{Record: &next, Before: record, Events: events}
	next.Run, step.Decisions = record.Run.Advance(events...)
	return step
}

// saved stores a step, and returns the rollout as it is read.
func saved(t *testing.T, stored *sqlstore.Rollouts, term int64, step drive.Step) *drive.Record {
	t.Helper()
	if err := stored.Save(t.Context(), term, step); err != nil {
		t.Fatal(err)
	}
	read, err := stored.Record(t.Context(), step.Record.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(step.Record.Run, read.Run, sameRun); diff != "" {
		t.Errorf("read another rollout than was stored (-stored +read):\n%s", diff)
	}
	return read
}

// testRolloutMembers stores steps of a rollout. Each writes the members that it changes, and no others.
func testRolloutMembers(t *testing.T, s subject) {
	const members = 1203
	stored, term := led(t, s)
	record, db, at := begunRun(t, s, stored, term, members), s.raw(t), time.Unix(1e9+60, 0)
	mark := func(uid, text string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE rollout_members SET wave = %s WHERE uid = '%s'", text, uid)); err != nil {
			t.Fatal(err)
		}
	}
	mark("uid-0007", "4711") // it comes back when the row is written
	record = saved(t, stored, term, after(record,
		rollout.Event{Kind: rollout.Presence, At: at, Member: "uid-0003", Online: true},
		rollout.Event{Kind: rollout.Report, At: at, Member: "uid-0003", Has: "old", Health: rollout.Healthy},
		rollout.Event{Kind: rollout.Membership, At: at, Left: []string{"uid-0005"}, Joined: []rollout.Member{{UID: "later", Name: "later", From: "old", To: "new"}}},
		rollout.Event{Kind: rollout.Tick, At: at},
	))
	var marked, rows int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM rollout_members WHERE wave = 4711").Scan(&marked); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM rollout_members").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if marked != 1 || rows != members {
		t.Errorf("got %d marked of %d rows, want the mark of a member that did not change, and one row for each member", marked, rows)
	}
	mark("uid-0007", "1")

	log, err := stored.Log(t.Context(), record.PolicyUID, 0)
	if err != nil || len(log.Record.Start.Members) != members || len(log.Events) != 4 {
		t.Fatalf("got %d members and %d events, %v; want those of the start, and all events", len(log.Record.Start.Members), len(log.Events), err)
	}
	if diff := log.Replay(); diff != "" {
		t.Errorf("replay: %s", diff)
	}
	if found, err := stored.Find(t.Context(), record.PolicyUID, 1); err != nil || len(found.Run.Members) != members {
		t.Errorf("got %v of the first rollout, want its members", err)
	}
	if _, err := stored.Find(t.Context(), record.PolicyUID, 2); !errors.Is(err, drive.ErrNotFound) {
		t.Errorf("got %v of a rollout that never was, want %v", err, drive.ErrNotFound)
	}
	checkPages(t, stored, record)

	// Listings need no members.
	if _, err := db.ExecContext(t.Context(), "DELETE FROM rollout_members"); err != nil {
		t.Fatal(err)
	}
	all, err := stored.Runs(t.Context(), record.PolicyUID)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v, want one rollout", all, err)
	}
	latest, err := stored.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []*drive.Outline{all[0], latest[record.PolicyUID]} {
		if diff := cmp.Diff(record.Outline(), got, sameRun); diff != "" {
			t.Errorf("outline (-want +got):\n%s", diff)
		}
	}
	if c := all[0].Run.Counts; c.Members != members || c.Total != members-1 || c.Unavailable != members-2 || len(all[0].Summary.Contents) != 1 {
		t.Errorf("got counts %+v and the summary %+v", c, all[0].Summary)
	}
}

// checkPages reads the members of a rollout in pages: each once, in the order of waves.
func checkPages(t *testing.T, stored *sqlstore.Rollouts, record *drive.Record) {
	t.Helper()
	seen, last := map[string]bool{}, drive.Place{}
	for {
		of, members, err := stored.Page(t.Context(), record.PolicyUID, 0, last, 500)
		if err != nil || of.ID != record.ID {
			t.Fatalf("got %v, %v, want the rollout", of, err)
		}
		for _, m := range members {
			if seen[m.UID] || m.Place.Wave < last.Wave {
				t.Errorf("got %s of wave %d after one of %d, want each member once, in the order of waves", m.UID, m.Place.Wave, last.Wave)
			}
			seen[m.UID], last = true, m.Place
		}
		if len(members) < 500 {
			break
		}
	}
	if len(seen) != len(record.Run.Members) || last.UID != fmt.Sprintf("uid-%04d", len(seen)-1) {
		t.Errorf("got %d members, the last is %s; want all, and the one that does not change last", len(seen), last.UID)
	}
}

// testRolloutsOfEarlierVersions opens a database in which the members of a rollout that is under
// way are stored with the rest of it, and each event in a row of its own. The rollout continues.
func testRolloutsOfEarlierVersions(t *testing.T, s subject) {
	stored, term := led(t, s)
	before, at := begunRun(t, s, stored, term, 30), time.Unix(1e9+60, 0)
	events := []rollout.Event{{Kind: rollout.Presence, At: at, Member: "uid-0003", Online: true}, {Kind: rollout.Tick, At: at}}
	before = saved(t, stored, term, after(before, events...))
	log, err := stored.Log(t.Context(), before.PolicyUID, 0)
	if err != nil {
		t.Fatal(err)
	}
	store := func(statement string, values ...any) {
		t.Helper()
		for i, v := range values {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			values[i] = string(text)
		}
		if _, err := s.raw(t).ExecContext(t.Context(), statement, values...); err != nil {
			t.Fatal(err)
		}
	}
	store("UPDATE rollout_runs SET run = $1, start = $2", before.Run, log.Record.Start)
	store("DELETE FROM rollout_events")
	for i, e := range events {
		store(fmt.Sprintf("INSERT INTO rollout_events (run_id, number, event) VALUES ('run', %d, $1)", i+1), e)
	}
	store("DROP TABLE rollout_members")
	store("DROP TABLE rollout_starts")
	store("ALTER TABLE rollout_runs DROP COLUMN summary")
	store("DELETE FROM bun_migrations WHERE name LIKE '20261230%'")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s.Store = open(t, s.url)
	stored = sqlstore.RolloutsOf(s.Store)
	read, err := stored.Record(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, read, sameRun); diff != "" {
		t.Errorf("the rollout after the upgrade (-before +after):\n%s", diff)
	}
	term = electiontest.Claim(t, stored, "next")
	saved(t, stored, term, after(read, rollout.Event{Kind: rollout.Report, At: at, Member: "uid-0003", Has: "old", Health: rollout.Healthy}, rollout.Event{Kind: rollout.Tick, At: at}))
	if log, err = stored.Log(t.Context(), before.PolicyUID, 0); err != nil || len(log.Events) != 4 || len(log.Record.Start.Members) != 30 {
		t.Fatalf("got %d events and %d members, %v; want those of before and after the upgrade", len(log.Events), len(log.Record.Start.Members), err)
	}
	if diff := log.Replay(); diff != "" {
		t.Errorf("replay: %s", diff)
	}
}
