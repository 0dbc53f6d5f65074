// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/migrate"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
)

// packed bounds the values of a log, or of a start, that one row holds.
const packed = 500

type rolloutMemberRow struct {
	bun.BaseModel `bun:"table:rollout_members,alias:rm"`
	RunID         string                    `bun:"run_id,pk"`
	UID           string                    `bun:"uid,pk"`
	Wave          int64                     `bun:"wave"`
	Progress      column[*rollout.Progress] `bun:"progress"`
}

type rolloutStartRow struct {
	bun.BaseModel `bun:"table:rollout_starts,alias:rt"`
	RunID         string               `bun:"run_id,pk"`
	Number        int64                `bun:"number,pk"`
	Members       pack[rollout.Member] `bun:"members"`
}

// pack is a column of values that are written together and read together, such as the events of a step. Earlier
// versions wrote one value a row, and not in a list.
type pack[T any] = column[values[T]]

type values[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (v *values[T]) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]T)(v))
	}
	*v = make([]T, 1)
	return json.Unmarshal(text, &(*v)[0])
}

// inPacks returns the rows of values that are numbered from first on.
func inPacks[T, Row any](all []T, first int64, row func(number int64, some pack[T]) *Row) []*Row {
	rows := make([]*Row, 0, (len(all)+packed-1)/packed)
	for some := range slices.Chunk(all, packed) {
		rows = append(rows, row(first, columnOf(values[T](some))))
		first += int64(len(some))
	}
	return rows
}

// listPacks reads the values of a query for rows.
func listPacks[Row, T any](ctx context.Context, query *bun.SelectQuery, all *[]T, of func(*Row) pack[T]) error {
	var packs []pack[T]
	err := list(ctx, query, &packs, of)
	*all = nil
	for _, p := range packs {
		*all = append(*all, p.v...)
	}
	return err
}

// memberRow returns the row of a member.
func memberRow(run string, p *rollout.Progress) *rolloutMemberRow {
	row := &rolloutMemberRow{RunID: run, UID: p.UID, Wave: int64(p.Wave), Progress: columnOf(p)}
	if p.Wave < 0 {
		row.Wave = math.MaxInt32
	}
	return row
}

func (r *rolloutMemberRow) progress() *rollout.Progress { return r.Progress.v }

// putMembers writes members, and deletes the ones that have left. It writes them in the order of
// the table's key: in the order of waves, each would be on another page of it.
func putMembers(ctx context.Context, db bun.IDB, run string, changed []*rollout.Progress, left []string) error {
	for some := range slices.Chunk(left, maxKeys) {
		query := db.NewDelete().Model((*rolloutMemberRow)(nil)).Where("run_id = ? AND uid IN (?)", run, bun.List(some))
		if _, err := query.Exec(ctx); err != nil {
			return translate("delete members of rollout", err)
		}
	}
	inOrder := slices.SortedFunc(slices.Values(changed), func(a, b *rollout.Progress) int { return cmp.Compare(a.UID, b.UID) })
	for some := range slices.Chunk(inOrder, maxRows) {
		rows := make([]*rolloutMemberRow, len(some))
		for i, p := range some {
			rows[i] = memberRow(run, p)
		}
		if err := replace(ctx, db, &rows, "run_id, uid", "wave", "progress"); err != nil {
			return translate("write members of rollout", err)
		}
	}
	return nil
}

// putStart writes what members were as a rollout began.
func putStart(ctx context.Context, db bun.IDB, run string, members []rollout.Member) error {
	rows := inPacks(members, 1, func(number int64, some pack[rollout.Member]) *rolloutStartRow {
		return &rolloutStartRow{RunID: run, Number: number, Members: some}
	})
	return translate("write start of rollout", insertAll(ctx, db, rows))
}

// membersOf returns all members of a rollout, in no order.
func membersOf(ctx context.Context, db bun.IDB, run string) (members []*rollout.Progress, err error) {
	err = list(ctx, db.NewSelect().Where("run_id = ?", run), &members, (*rolloutMemberRow).progress)
	return members, err
}

// membersMigration moves the members of rollouts of earlier versions into rows of their own. It may be repeated.
func membersMigration() migrate.Migration {
	return migrate.Migration{Name: "20261230020000", Comment: "rollout_members_moved", Up: func(ctx context.Context, m *migrate.Migrator, _ *migrate.Migration) error {
		var ids []string
		if err := m.DB().NewSelect().Model((*runRow)(nil)).Column("id").Where("summary = ''").Scan(ctx, &ids); err != nil {
			return err
		}
		for _, id := range ids {
			err := m.DB().RunInTx(ctx, nil, func(ctx context.Context, db bun.Tx) error { return moveMembers(ctx, db, id) })
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

// moveMembers moves the members of one rollout.
func moveMembers(ctx context.Context, db bun.IDB, id string) error {
	var stored struct{ Start, Run string }
	if err := db.NewRaw("SELECT start, run FROM rollout_runs WHERE id = ?", id).Scan(ctx, &stored.Start, &stored.Run); err != nil {
		return err
	}
	record := &drive.Record{ID: id}
	if err := decode("run", stored.Run, &record.Run); err != nil {
		return err
	}
	if err := decode("start", stored.Start, &record.Start); err != nil {
		return err
	}
	record.Run = record.Run.With(record.Run.Members)
	if err := putStart(ctx, db, id, record.Start.Members); err != nil {
		return err
	}
	if err := putMembers(ctx, db, id, record.Run.Members, nil); err != nil {
		return err
	}
	record.Summarize()
	_, err := db.NewUpdate().Model(rowOfRun(record)).WherePK().Column("start", "run", "summary").Exec(ctx)
	return translate("move members of rollout", err)
}
