// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Notifications keeps what notifiers are to send, and who sends it. It is safe for concurrent use.
type Notifications struct {
	leadTable

	store *Store
}

var (
	_ election.Store = (*Notifications)(nil)
	_ notify.Store   = (*Notifications)(nil)
	_ notify.Mail    = (*Notifications)(nil)
)

// NotificationsOf returns the part of a store about notifications.
func NotificationsOf(s *Store) *Notifications {
	return &Notifications{leadTable: leadTable{s.db, notificationLead, "notifications"}, store: s}
}

// The states of a message.
const (
	messageWaits int64 = 0
	messageDead  int64 = 1
)

// notificationLead is the table that names the leader, and since when it and those before it have observed.
const notificationLead = "notification_lead"

type stateRow struct {
	bun.BaseModel `bun:"table:notification_states,alias:ns"`
	Object        string               `bun:"object,pk"`
	State         column[notify.State] `bun:"state"`
}

type notificationRow struct {
	bun.BaseModel `bun:"table:notifications,alias:nt"`
	ID            string                 `bun:"id,pk"`
	NotifierUID   string                 `bun:"notifier_uid"`
	Cause         string                 `bun:"cause"`
	Message       column[notice.Message] `bun:"message"`
	State         int64                  `bun:"state"`
	Attempts      int64                  `bun:"attempts"`
	CreatedAt     int64                  `bun:"created_at"`
	NextAt        int64                  `bun:"next_at"`
	LastError     string                 `bun:"last_error"`
}

func (r *notificationRow) item() notify.Item {
	return notify.Item{
		NotifierUID: r.NotifierUID, Cause: r.Cause, Message: r.Message.v, Commit: notify.CommitOf(r.Cause), CreatedAt: timeOf(r.CreatedAt),
		NextAt: timeOf(r.NextAt), Attempts: int(r.Attempts), LastError: r.LastError,
	}
}

func notificationRowOf(i notify.Item) *notificationRow {
	return &notificationRow{
		ID: i.Message.ID, NotifierUID: i.NotifierUID, Cause: i.Cause, Message: columnOf(i.Message), State: messageWaits,
		Attempts: int64(i.Attempts), CreatedAt: micros(i.CreatedAt), NextAt: micros(i.NextAt), LastError: i.LastError,
	}
}

// Ledger implements notify.Store.
func (s *Notifications) Ledger(ctx context.Context) (notify.Ledger, error) {
	ledger := notify.Ledger{States: map[string]notify.State{}}
	err := s.store.read(ctx, "read states for notifications", func(ctx context.Context, tx bun.Tx) error {
		var since int64
		var rows []*stateRow
		if err := tx.NewSelect().Table(notificationLead).Column("since").Where("id = 1").Scan(ctx, &since); err != nil {
			return err
		}
		if err := tx.NewSelect().Model(&rows).Scan(ctx); err != nil {
			return err
		}
		ledger.Since = timeOf(since)
		for _, row := range rows {
			ledger.States[row.Object] = row.State.v
		}
		return nil
	})
	return ledger, err
}

// Forget implements notify.Store.
func (s *Notifications) Forget(ctx context.Context, term int64) error {
	return s.write(ctx, "forget states for notifications", term, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewDelete().Model((*stateRow)(nil)).Where("1 = 1").Exec(ctx); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Table(notificationLead).Set("since = 0").Where("id = 1").Exec(ctx)
		return err
	})
}

// Save implements notify.Store.
func (s *Notifications) Save(ctx context.Context, term int64, batch notify.Batch) error {
	return s.write(ctx, "write notifications", term, func(ctx context.Context, tx bun.Tx) error {
		if !batch.Since.IsZero() {
			if _, err := tx.NewUpdate().Table(notificationLead).Set("since = ?", micros(batch.Since)).Where("id = 1").Exec(ctx); err != nil {
				return err
			}
		}
		rows := make([]*stateRow, 0, len(batch.States))
		for id, state := range batch.States {
			rows = append(rows, &stateRow{Object: id, State: columnOf(state)})
		}
		if err := replaceAll(ctx, tx, rows, "object", "state"); err != nil {
			return err
		}
		for len(batch.Gone) > 0 {
			chunk := batch.Gone[:min(len(batch.Gone), maxKeys)]
			batch.Gone = batch.Gone[len(chunk):]
			if _, err := tx.NewDelete().Model((*stateRow)(nil)).Where("object IN (?)", bun.List(chunk)).Exec(ctx); err != nil {
				return err
			}
		}
		byNotifier := map[string][]notify.Item{}
		for _, item := range batch.Added {
			byNotifier[item.NotifierUID] = append(byNotifier[item.NotifierUID], item)
		}
		for uid, added := range byNotifier {
			if err := place(ctx, tx, uid, added); err != nil {
				return err
			}
		}
		return nil
	})
}

// place adds messages to the outbox of a notifier.
func place(ctx context.Context, db bun.IDB, uid string, added []notify.Item) error {
	isThere, err := db.NewSelect().Table("notifiers").Where("uid = ?", uid).Exists(ctx)
	if err != nil || !isThere {
		return err
	}
	var collecting []notify.Item
	waits := db.NewSelect().Where("notifier_uid = ? AND state = ?", uid, messageWaits)
	if err := list(ctx, waits.Where("attempts = 0").Order("created_at"), &collecting, (*notificationRow).item); err != nil {
		return err
	}
	waiting, err := db.NewSelect().Model((*notificationRow)(nil)).Where("notifier_uid = ? AND state = ?", uid, messageWaits).Count(ctx)
	if err != nil {
		return err
	}
	written, lost := notify.Place(collecting, added, int(waiting))
	rows := make([]*notificationRow, len(written))
	for i, item := range written {
		rows[i] = notificationRowOf(item)
	}
	if err := replaceAll(ctx, db, rows, "id", "message"); err != nil || lost == 0 {
		return err
	}
	return addCounts(ctx, db, countsRow{NotifierUID: uid, Lost: int64(lost)})
}

// Take implements notify.Store.
func (s *Notifications) Take(ctx context.Context, term int64, now, until time.Time, skip []string, limit int) ([]notify.Item, error) {
	isDue := func(query *bun.SelectQuery) *bun.SelectQuery {
		query = query.Where("nt.state = ? AND nt.next_at <= ?", messageWaits, micros(now)).
			Where(`NOT EXISTS (SELECT 1 FROM notifications AS o WHERE o.notifier_uid = nt.notifier_uid AND o.state = nt.state AND
				(o.next_at < nt.next_at OR o.next_at = nt.next_at AND o.id < nt.id))`).Limit(int64(limit))
		if len(skip) > 0 {
			query = query.Where("nt.notifier_uid NOT IN (?)", bun.List(skip))
		}
		return query
	}
	// A look without the lock comes first: mostly there is nothing to send.
	if isWaiting, err := isDue(s.store.db.NewSelect().Model((*notificationRow)(nil))).Exists(ctx); err != nil || !isWaiting {
		return nil, translate("look for notifications", err)
	}
	var items []notify.Item
	err := s.write(ctx, "take notifications", term, func(ctx context.Context, tx bun.Tx) error {
		items = nil
		if err := list(ctx, isDue(tx.NewSelect()), &items, (*notificationRow).item); err != nil || len(items) == 0 {
			return err
		}
		ids := make([]string, len(items))
		for i := range items {
			items[i].Attempts++
			ids[i] = items[i].Message.ID
		}
		_, err := tx.NewUpdate().Model((*notificationRow)(nil)).Set("attempts = attempts + 1, next_at = ?", micros(until)).
			Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
	return items, err
}

// Oldest implements notify.Store.
func (s *Notifications) Oldest(ctx context.Context) (time.Time, error) {
	var items []notify.Item
	waits := s.store.db.NewSelect().Where("state = ?", messageWaits).Order("created_at").Limit(1)
	if err := list(ctx, waits, &items, (*notificationRow).item); err != nil || len(items) == 0 {
		return time.Time{}, translate("look for the oldest notification", err)
	}
	return items[0].CreatedAt, nil
}

// Settle implements notify.Store.
func (s *Notifications) Settle(ctx context.Context, term int64, v notify.Verdict) error {
	return s.write(ctx, "settle notification", term, func(ctx context.Context, tx bun.Tx) error {
		id, uid := v.Item.Message.ID, v.Item.NotifierUID
		isThere, err := tx.NewSelect().Model((*notificationRow)(nil)).Where("id = ?", id).Exists(ctx)
		if err != nil || !isThere {
			return err // the notifier was deleted
		}
		if v.Sent {
			if _, err := tx.NewDelete().Model((*notificationRow)(nil)).Where("id = ?", id).Exec(ctx); err != nil {
				return err
			}
			return addCounts(ctx, tx, countsRow{NotifierUID: uid, Sent: 1, LastSentAt: micros(v.At)})
		}
		state, counts := messageWaits, countsRow{NotifierUID: uid, LastError: v.Error, LastErrorAt: micros(v.At)}
		if v.Dead {
			state = messageDead
		}
		_, err = tx.NewUpdate().Model((*notificationRow)(nil)).Set("state = ?, next_at = ?, last_error = ?", state, micros(v.Item.NextAt), v.Error).
			Where("id = ?", id).Exec(ctx)
		if err != nil {
			return err
		}
		if v.Dead {
			if counts.Lost, err = buryOldest(ctx, tx, uid); err != nil {
				return err
			}
		}
		return addCounts(ctx, tx, counts)
	})
}

// buryOldest deletes the oldest dead letters of a notifier that has too many, and returns how many
// events are lost by that.
func buryOldest(ctx context.Context, tx bun.Tx, uid string) (lost int64, err error) {
	var excess []*notificationRow
	err = tx.NewSelect().Model(&excess).Where("notifier_uid = ? AND state = ?", uid, messageDead).OrderExpr("created_at DESC, id DESC").
		Offset(notify.MaxDead).Limit(maxKeys).Scan(ctx)
	if err != nil || len(excess) == 0 {
		return 0, err
	}
	ids := make([]string, len(excess))
	for i, row := range excess {
		ids[i] = row.ID
		lost += int64(row.Message.v.Count)
	}
	_, err = tx.NewDelete().Model((*notificationRow)(nil)).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return lost, err
}

// countsRow are a notifier's counts.
type countsRow struct {
	bun.BaseModel `bun:"table:notifier_counts,alias:nc"`
	NotifierUID   string `bun:"notifier_uid,pk"`
	Sent          int64  `bun:"sent"`
	Lost          int64  `bun:"lost"`
	LastSentAt    int64  `bun:"last_sent_at"`
	LastError     string `bun:"last_error"`
	LastErrorAt   int64  `bun:"last_error_at"`
}

// addCounts adds to the counts of a notifier. A success clears the last error.
func addCounts(ctx context.Context, db bun.IDB, counts countsRow) error {
	query := db.NewInsert().Model(&counts).On("CONFLICT (notifier_uid) DO UPDATE").
		Set("sent = nc.sent + EXCLUDED.sent").Set("lost = nc.lost + EXCLUDED.lost")
	switch {
	case counts.Sent > 0:
		query = query.Set("last_sent_at = EXCLUDED.last_sent_at").Set("last_error = ''")
	case counts.LastErrorAt > 0:
		query = query.Set("last_error = EXCLUDED.last_error").Set("last_error_at = EXCLUDED.last_error_at")
	}
	_, err := query.Exec(ctx)
	return err
}

// Mailbags implements notify.Mail.
func (s *Notifications) Mailbags(ctx context.Context, uids []string) (map[string]notify.Mailbag, error) {
	all := map[string]notify.Mailbag{}
	if len(uids) == 0 {
		return all, nil
	}
	err := s.store.read(ctx, "read state of notifiers", func(ctx context.Context, tx bun.Tx) error {
		clear(all)
		var counts []*countsRow
		if err := tx.NewSelect().Model(&counts).Where("notifier_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
			return err
		}
		for _, row := range counts {
			all[row.NotifierUID] = notify.Mailbag{
				Sent: row.Sent, Lost: row.Lost, LastSentAt: timeOf(row.LastSentAt), LastError: row.LastError, LastErrorAt: timeOf(row.LastErrorAt),
			}
		}
		var numbers []struct {
			UID    string `bun:"uid"`
			State  int64  `bun:"state"`
			Number int    `bun:"number"`
		}
		err := tx.NewSelect().Model((*notificationRow)(nil)).ColumnExpr("nt.notifier_uid AS uid, nt.state, COUNT(*) AS number").
			Where("nt.notifier_uid IN (?)", bun.List(uids)).GroupExpr("nt.notifier_uid, nt.state").Scan(ctx, &numbers)
		for _, n := range numbers {
			bag := all[n.UID]
			if n.State == messageDead {
				bag.Dead = n.Number
			} else {
				bag.Waiting = n.Number
			}
			all[n.UID] = bag
		}
		return err
	})
	return all, err
}

// DeadLetters implements notify.Mail.
func (s *Notifications) DeadLetters(ctx context.Context, uid string) ([]notify.Item, error) {
	var items []notify.Item
	query := s.store.db.NewSelect().Where("notifier_uid = ? AND state = ?", uid, messageDead).OrderExpr("created_at, id").Limit(notify.MaxDead)
	err := list(ctx, query, &items, (*notificationRow).item)
	return items, translate("read dead letters", err)
}

// Resend implements notify.Mail.
func (s *Notifications) Resend(ctx context.Context, uid string, ids []string, now time.Time) (int, error) {
	query := s.store.db.NewUpdate().Model((*notificationRow)(nil)).
		// It is tried for as long as a new one, and nothing is added to it.
		Set("state = ?, next_at = ?, created_at = ?", messageWaits, micros(now), micros(now)).
		Where("notifier_uid = ? AND state = ?", uid, messageDead)
	if len(ids) > 0 {
		query = query.Where("id IN (?)", bun.List(ids))
	}
	result, err := query.Exec(ctx)
	if err != nil {
		return 0, translate("send dead letters again", err)
	}
	n, err := result.RowsAffected()
	return int(n), translate("count rows", err)
}

// NotifierSecrets returns the secrets of the notifier with that uid. Error: *catalog.NotFoundError.
func (s *Notifications) NotifierSecrets(ctx context.Context, uid string) (catalog.NotifierSecrets, error) {
	n, err := storedNotifiers.byUID(ctx, s.store, uid)
	if err != nil {
		return catalog.NotifierSecrets{}, err
	}
	return n.Spec.Secrets, nil
}
