// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// maxBrought bounds the members of one question of Brings.
const maxBrought = 500

// Rollouts keeps rollouts, and who drives them. It is safe for concurrent use.
type Rollouts struct {
	leadTable

	store *Store
}

var (
	_ election.Store = (*Rollouts)(nil)
	_ drive.Store    = (*Rollouts)(nil)
	_ drive.People   = (*Rollouts)(nil)
)

// RolloutsOf returns the part of a store about rollouts.
func RolloutsOf(s *Store) *Rollouts {
	return &Rollouts{leadTable: leadTable{s.db, "rollout_lead", "rollouts"}, store: s}
}

type runRow struct {
	bun.BaseModel `bun:"table:rollout_runs,alias:rr"`
	ID            string                  `bun:"id,pk"`
	PolicyUID     string                  `bun:"policy_uid"`
	Number        int64                   `bun:"number"`
	Version       int64                   `bun:"version"`
	State         string                  `bun:"state"`
	Start         column[drive.Start]     `bun:"start"`
	Run           column[rollout.Header]  `bun:"run"`
	Refused       column[[]drive.Refusal] `bun:"refused"`
	Summary       column[drive.Summary]   `bun:"summary"`
}

type rolloutEventRow struct {
	bun.BaseModel `bun:"table:rollout_events,alias:re"`
	RunID         string              `bun:"run_id,pk"`
	Number        int64               `bun:"number,pk"` // of the first
	Events        pack[rollout.Event] `bun:"event"`
}

type rolloutDecisionRow struct {
	bun.BaseModel `bun:"table:rollout_decisions,alias:rd"`
	RunID         string                 `bun:"run_id,pk"`
	Number        int64                  `bun:"number,pk"` // of the first
	Decisions     pack[rollout.Decision] `bun:"decision"`
}

// rowOfRun returns the row of a rollout, whose members are in rows of their own.
func rowOfRun(r *drive.Record) *runRow {
	start := r.Start
	start.Members = nil
	return &runRow{
		ID: r.ID, PolicyUID: r.PolicyUID, Number: r.Number, Version: r.Version + 1, State: string(r.Run.State), Start: columnOf(start),
		Run: columnOf(r.Run.Header), Refused: columnOf(r.Refused), Summary: columnOf(r.Summary),
	}
}

// record reads the rollout of a row with its members.
func (r *runRow) record(ctx context.Context, db bun.IDB) (*drive.Record, error) {
	members, err := membersOf(ctx, db, r.ID)
	return &drive.Record{
		ID: r.ID, PolicyUID: r.PolicyUID, Number: r.Number, Version: r.Version, Start: r.Start.v, Run: r.Run.v.With(members), Refused: r.Refused.v,
		Summary: r.Summary.v,
	}, err
}

func (r *runRow) outline() *drive.Outline {
	return &drive.Outline{ID: r.ID, PolicyUID: r.PolicyUID, Number: r.Number, Version: r.Version, Run: r.Run.v, Summary: r.Summary.v}
}

// Heads implements drive.Store.
func (s *Rollouts) Heads(ctx context.Context) ([]drive.Head, error) {
	var heads []drive.Head
	query := latestRuns(s.store.db.NewSelect().Column("id", "policy_uid", "version"))
	err := list(ctx, query, &heads, func(r *runRow) drive.Head {
		return drive.Head{ID: r.ID, PolicyUID: r.PolicyUID, Version: r.Version}
	})
	return heads, translate("read latest rollouts", err)
}

// latestRuns selects the latest rollout of each policy.
func latestRuns(query *bun.SelectQuery) *bun.SelectQuery {
	return query.Where("number = (SELECT MAX(o.number) FROM rollout_runs AS o WHERE o.policy_uid = rr.policy_uid)")
}

// Record implements drive.Store.
func (s *Rollouts) Record(ctx context.Context, id string) (*drive.Record, error) {
	return s.find(ctx, func(query *bun.SelectQuery) *bun.SelectQuery { return query.Where("id = ?", id) })
}

// find returns the rollout that a query selects, with its members.
func (s *Rollouts) find(ctx context.Context, of func(*bun.SelectQuery) *bun.SelectQuery) (*drive.Record, error) {
	var record *drive.Record
	err := s.store.read(ctx, "read rollout", func(ctx context.Context, tx bun.Tx) (err error) {
		row := new(runRow)
		if err := of(tx.NewSelect().Model(row)).Scan(ctx); err != nil {
			return err
		}
		record, err = row.record(ctx, tx)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, drive.ErrNotFound
	}
	return record, err
}

// numberedRun selects a rollout of a policy by its number; 0 is the latest.
func numberedRun(query *bun.SelectQuery, policyUID string, number int64) *bun.SelectQuery {
	query = query.Where("policy_uid = ?", policyUID).Order("number DESC").Limit(1)
	if number > 0 {
		query = query.Where("number = ?", number)
	}
	return query
}

// Outline implements standing.Rollouts.
func (s *Rollouts) Outline(ctx context.Context, id string) (*drive.Outline, error) {
	row := new(runRow)
	err := outlined(s.store.db.NewSelect().Model(row)).Where("id = ?", id).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, drive.ErrNotFound
	}
	return row.outline(), translate("read rollout", err)
}

// outlined has a query read what an outline holds.
func outlined(query *bun.SelectQuery) *bun.SelectQuery {
	return query.Column("id", "policy_uid", "number", "version", "run", "summary")
}

// Save implements drive.Store. Admissions are changes of the catalog, which replicas follow.
func (s *Rollouts) Save(ctx context.Context, term int64, step drive.Step) error {
	n := quietly
	if len(step.Admissions) > 0 {
		n = numbered
	}
	return s.store.editWith(ctx, n, func(ctx context.Context, t *tx) error {
		t.dirty = true
		if err := s.hold(ctx, t.sql, term); err != nil {
			return err
		}
		isMoved, err := t.admit(ctx, step.Admissions)
		if err == nil && step.Record != nil {
			err = saveRun(ctx, t.sql, step)
		}
		if err != nil || !isMoved {
			return err
		}
		return forgetConfigs(ctx, t.sql) // after the rollout has named the ones that it needs
	})
}

// saveRun writes a rollout with what happened and what was decided.
func saveRun(ctx context.Context, db bun.IDB, step drive.Step) error {
	r := step.Record
	row := rowOfRun(r)
	changed, left := r.Run.Members, []string(nil)
	if step.Before != nil {
		changed, left = rollout.Differ(step.Before.Run, r.Run)
	}
	hasJoined := slices.ContainsFunc(step.Events, func(e rollout.Event) bool { return len(e.Joined) > 0 })
	if r.Version == 0 {
		isThere, err := db.NewSelect().Table("rollout_policies").Where("uid = ?", r.PolicyUID).Exists(ctx)
		if err != nil {
			return translate("look for policy", err)
		}
		if !isThere {
			return drive.ErrMoved // it was deleted meanwhile
		}
		if _, err := db.NewInsert().Model(row).Exec(ctx); err != nil {
			return translate("write rollout", err)
		}
		_, err = db.NewDelete().Model((*runRow)(nil)).Where("policy_uid = ? AND number <= ?", r.PolicyUID, r.Number-drive.KeptRuns).Exec(ctx)
		if err != nil {
			return translate("forget rollouts", err)
		}
		if err := forgetSpecs(ctx, db); err != nil {
			return err
		}
		if err := putStart(ctx, db, r.ID, r.Start.Members); err != nil {
			return err
		}
	} else {
		query := db.NewUpdate().Model(row).WherePK().Where("version = ?", r.Version)
		if !hasJoined {
			query = query.ExcludeColumn("start", "summary") // they change with new members alone
		}
		result, err := query.Exec(ctx)
		if err != nil {
			return translate("write rollout", err)
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(translate("count rows", err), drive.ErrMoved)
		}
	}
	if err := putMembers(ctx, db, r.ID, changed, left); err != nil {
		return err
	}
	if r.Version == 0 || hasJoined || r.Run.State.HasEnded() {
		if err := linkConfigs(ctx, db, r); err != nil {
			return err
		}
	}
	return saveLog(ctx, db, step)
}

func saveLog(ctx context.Context, db bun.IDB, step drive.Step) error {
	r := step.Record
	events := inPacks(step.Events, r.Run.Seq-int64(len(step.Events))+1, func(number int64, some pack[rollout.Event]) *rolloutEventRow {
		return &rolloutEventRow{RunID: r.ID, Number: number, Events: some}
	})
	decisions := inPacks(step.Decisions, r.Run.Decided-int64(len(step.Decisions))+1, func(number int64, some pack[rollout.Decision]) *rolloutDecisionRow {
		return &rolloutDecisionRow{RunID: r.ID, Number: number, Decisions: some}
	})
	if err := insertAll(ctx, db, events); err != nil {
		return translate("write events of rollout", err)
	}
	return translate("write decisions of rollout", insertAll(ctx, db, decisions))
}

// Runs implements drive.People.
func (s *Rollouts) Runs(ctx context.Context, policyUID string) ([]*drive.Outline, error) {
	var all []*drive.Outline
	query := outlined(s.store.db.NewSelect()).Where("policy_uid = ?", policyUID).Order("number DESC").Limit(drive.KeptRuns)
	err := list(ctx, query, &all, (*runRow).outline)
	return all, translate("read rollouts", err)
}

// Latest implements drive.People.
func (s *Rollouts) Latest(ctx context.Context) (map[string]*drive.Outline, error) {
	var all []*drive.Outline
	err := list(ctx, latestRuns(outlined(s.store.db.NewSelect())), &all, (*runRow).outline)
	byPolicy := make(map[string]*drive.Outline, len(all))
	for _, o := range all {
		byPolicy[o.PolicyUID] = o
	}
	return byPolicy, translate("read latest rollouts", err)
}

// Find implements drive.People.
func (s *Rollouts) Find(ctx context.Context, policyUID string, number int64) (*drive.Record, error) {
	return s.find(ctx, func(query *bun.SelectQuery) *bun.SelectQuery { return numberedRun(query, policyUID, number) })
}

// Page implements drive.People.
func (s *Rollouts) Page(ctx context.Context, policyUID string, number int64, after drive.Place, limit int) (*drive.Outline, []drive.Placed, error) {
	row, members := new(runRow), []drive.Placed(nil)
	err := s.store.read(ctx, "read members of rollout", func(ctx context.Context, tx bun.Tx) error {
		if err := numberedRun(outlined(tx.NewSelect().Model(row)), policyUID, number).Scan(ctx); err != nil {
			return err
		}
		query := tx.NewSelect().Where("run_id = ?", row.ID).Order("wave", "uid").Limit(int64(limit))
		if after != (drive.Place{}) {
			query = query.Where("wave > ? OR wave = ? AND uid > ?", after.Wave, after.Wave, after.UID)
		}
		return list(ctx, query, &members, func(r *rolloutMemberRow) drive.Placed {
			return drive.Placed{Progress: r.Progress.v, Place: drive.Place{Wave: r.Wave, UID: r.UID}}
		})
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, drive.ErrNotFound
	}
	return row.outline(), members, err
}

// Brings returns the latest rollout of a policy, and the releases that it brings to some services, by their uids;
// none to one that does not take part. Errors: drive.ErrNotFound.
func (s *Rollouts) Brings(ctx context.Context, policyUID string, serviceUIDs []string) (*drive.Outline, map[string]catalog.Release, error) {
	row, releases := new(runRow), map[string]catalog.Release{}
	err := s.store.read(ctx, "read what a rollout brings", func(ctx context.Context, tx bun.Tx) error {
		if err := numberedRun(outlined(tx.NewSelect().Model(row)).Column("start"), policyUID, 0).Scan(ctx); err != nil {
			return err
		}
		var members []*rollout.Progress
		for some := range slices.Chunk(serviceUIDs, maxBrought) {
			query := tx.NewSelect().Where("run_id = ?", row.ID).Where("uid IN (?)", bun.List(some))
			if err := list(ctx, query, &members, (*rolloutMemberRow).progress); err != nil {
				return err
			}
		}
		for _, member := range members {
			releases[member.UID] = row.Start.v.Release(member.To)
		}
		return nil
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, drive.ErrNotFound
	}
	return row.outline(), releases, err
}

// Log implements drive.People.
func (s *Rollouts) Log(ctx context.Context, policyUID string, number int64) (*drive.Log, error) {
	var log *drive.Log
	err := s.store.read(ctx, "read log of rollout", func(ctx context.Context, tx bun.Tx) error {
		row := new(runRow)
		if err := numberedRun(tx.NewSelect().Model(row), policyUID, number).Scan(ctx); err != nil {
			return err
		}
		record, err := row.record(ctx, tx)
		if err != nil {
			return err
		}
		log = &drive.Log{Record: *record}
		ofRun := func() *bun.SelectQuery { return tx.NewSelect().Where("run_id = ?", row.ID).Order("number") }
		return cmp.Or(
			listPacks(ctx, ofRun(), &log.Record.Start.Members, func(r *rolloutStartRow) pack[rollout.Member] { return r.Members }),
			listPacks(ctx, ofRun(), &log.Events, func(r *rolloutEventRow) pack[rollout.Event] { return r.Events }),
			listPacks(ctx, ofRun(), &log.Decisions, func(r *rolloutDecisionRow) pack[rollout.Decision] { return r.Decisions }),
		)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, drive.ErrNotFound
	}
	return log, err
}

// Tell implements drive.People.
func (s *Rollouts) Tell(ctx context.Context, change catalog.Change, step drive.Step) error {
	return s.store.edit(ctx, func(ctx context.Context, t *tx) error {
		t.dirty = true
		t.note(change)
		return saveRun(ctx, t.sql, step)
	})
}

// Authors implements drive.Store.
func (s *Rollouts) Authors(ctx context.Context, since int64) ([]catalog.Author, error) {
	var authors []catalog.Author
	query := s.store.db.NewSelect().Where("revision > ?", since).Order("object_uid", "subject")
	return authors, translate("read authors", list(ctx, query, &authors, (*authorRow).author))
}
