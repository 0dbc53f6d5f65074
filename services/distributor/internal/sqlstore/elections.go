// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// leadTable is a table whose only row is the tenure of an election. It is safe for concurrent use.
//
// Each election has a table of its own, because replicas of different versions take part in one
// election while the hub is upgraded: another table would elect a second leader.
type leadTable struct {
	db      *bun.DB
	name    string
	subject string // of errors
}

// Tenure implements election.Store.
func (l leadTable) Tenure(ctx context.Context) (t election.Tenure, err error) {
	query := l.db.NewSelect().Table(l.name).Column("holder", "term", "beat").Where("id = 1")
	err = query.Scan(ctx, &t.Holder, &t.Term, &t.Beat)
	return t, translate("read leader of "+l.subject, err)
}

// Claim implements election.Store.
func (l leadTable) Claim(ctx context.Context, holder string, seen election.Tenure) (term int64, ok bool, err error) {
	query := l.db.NewUpdate().Set("holder = ?, term = term + 1, beat = beat + 1", holder).
		Where("holder = ? AND term = ? AND beat = ?", seen.Holder, seen.Term, seen.Beat)
	ok, err = l.update(ctx, "claim lead of ", query)
	return seen.Term + 1, ok, err
}

// Beat implements election.Store.
func (l leadTable) Beat(ctx context.Context, term int64) error {
	return l.hold(ctx, l.db, term)
}

// Resign implements election.Store.
func (l leadTable) Resign(ctx context.Context, term int64) error {
	return l.inTerm(ctx, "resign lead of ", term, l.db.NewUpdate().Set("holder = ''"))
}

// hold confirms that the term lasts, and counts a beat. In a transaction the term lasts until that
// ends: the row is the lock of all writes of leaders, and Claim waits for it.
func (l leadTable) hold(ctx context.Context, db bun.IDB, term int64) error {
	return l.inTerm(ctx, "hold lead of ", term, db.NewUpdate().Set("beat = beat + 1"))
}

// write calls fn in a transaction that holds the term.
func (l leadTable) write(ctx context.Context, verb string, term int64, fn func(ctx context.Context, tx bun.Tx) error) error {
	err := l.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := l.hold(ctx, tx, term); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
	if errors.Is(err, election.ErrDeposed) {
		return election.ErrDeposed
	}
	return translate(verb, err)
}

// inTerm makes an update of the row if the term lasts.
func (l leadTable) inTerm(ctx context.Context, verb string, term int64, query *bun.UpdateQuery) error {
	isHeld, err := l.update(ctx, verb, query.Where("holder <> '' AND term = ?", term))
	if err == nil && !isHeld {
		return election.ErrDeposed
	}
	return err
}

// update makes an update of the row, and reports whether its conditions were met.
func (l leadTable) update(ctx context.Context, verb string, query *bun.UpdateQuery) (isMet bool, err error) {
	result, err := query.Table(l.name).Where("id = 1").Exec(ctx)
	if err != nil {
		return false, translate(verb+l.subject, err)
	}
	n, err := result.RowsAffected()
	return n == 1, translate("count rows", err)
}
