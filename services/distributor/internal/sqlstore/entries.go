// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// readerLife is for how long a replica stays the one that reads a back end without saying so
	// again. The reads of one Due end before.
	readerLife = time.Minute
	// unusedLife is how long an entry is kept that no service refers to.
	unusedLife = 24 * time.Hour
)

// Entries holds the entries that were read from configuration back ends. It is safe for concurrent
// use.
type Entries struct{ store *Store }

// NewEntries returns the entries of a store.
func NewEntries(store *Store) *Entries { return &Entries{store: store} }

var _ configs.Entries = (*Entries)(nil)

type entryRow struct {
	bun.BaseModel `bun:"table:config_entries,alias:ce"`
	ID            string                `bun:"id,pk"`
	BackendUID    string                `bun:"backend_uid"`
	Path          string                `bun:"path"`
	Sealed        []byte                `bun:"sealed"`
	Version       string                `bun:"version"`
	ReadAt        int64                 `bun:"read_at"`
	TriedAt       int64                 `bun:"tried_at"`
	DueAt         int64                 `bun:"due_at"`
	Attempts      int                   `bun:"attempts"`
	Failure       column[failureColumn] `bun:"failure"`
}

var entryValues = sealedColumn{"config_entries", "id", "sealed", purposeEntries, placeOfKey}

// failureColumn is the failure of the last read.
type failureColumn struct {
	Message   string `json:"message,omitempty"`
	IsRefused bool   `json:"refused,omitempty"`
	IsAbsent  bool   `json:"absent,omitempty"`
	IsOverdue bool   `json:"overdue,omitempty"`
	// Since is when the first of these reads failed, in microseconds. An earlier version stored 0.
	Since int64 `json:"since,omitempty"`
}

// isReferredTo is the condition that a service refers to an entry of that table, be it a derived one.
func isReferredTo(table string) string {
	return "(EXISTS (SELECT 1 FROM config_references AS r WHERE r.entry_id = " + table + ".id)" +
		" OR EXISTS (SELECT 1 FROM variant_references AS v WHERE v.entry_id = " + table + ".id))"
}

// entryID returns the id of an entry. A uid has no slash.
func entryID(backendUID, path string) string { return backendUID + "/" + path }

// Due implements configs.Entries. It writes nothing while nothing is due.
func (e *Entries) Due(ctx context.Context, backendUID, replica string, now time.Time, limit int) ([]configs.Task, error) {
	var rows []*entryRow
	query := func() *bun.SelectQuery {
		return e.store.db.NewSelect().Model(&rows).Column("path", "attempts", "read_at").
			Where("backend_uid = ? AND due_at <= ?", backendUID, micros(now)).
			Where(isReferredTo("ce")).Order("due_at", "id").Limit(int64(limit))
	}
	if err := query().Scan(ctx); err != nil || len(rows) == 0 {
		return nil, translate("read due entries", err)
	}
	holder := ""
	err := e.store.db.NewRaw(`INSERT INTO config_readers (backend_uid, replica, until) SELECT uid, ?, ? FROM config_backends WHERE uid = ?
		ON CONFLICT (backend_uid) DO UPDATE SET replica = EXCLUDED.replica, until = EXCLUDED.until
		WHERE config_readers.replica = EXCLUDED.replica OR config_readers.until < ? RETURNING replica`,
		replica, micros(now.Add(readerLife)), backendUID, micros(now)).Scan(ctx, &holder)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // another replica reads it, or it is gone
	}
	if err != nil {
		return nil, translate("hold configuration back end", err)
	}
	// Another replica may have read some of them until now.
	rows = nil
	if err := query().Scan(ctx); err != nil {
		return nil, translate("read due entries", err)
	}
	tasks := make([]configs.Task, len(rows))
	for i, row := range rows {
		tasks[i] = configs.Task{Path: row.Path, Attempts: row.Attempts, ReadAt: timeOf(row.ReadAt)}
	}
	return tasks, nil
}

// Release implements configs.Entries.
func (e *Entries) Release(ctx context.Context, replica string) error {
	_, err := e.store.db.NewDelete().Table("config_readers").Where("replica = ?", replica).Exec(ctx)
	return translate("release configuration back ends", err)
}

// Save implements configs.Entries.
func (e *Entries) Save(ctx context.Context, backendUID, path string, entry configs.Entry, at, next time.Time) (isChanged bool, err error) {
	id := entryID(backendUID, path)
	return e.change(ctx, id, at, func(t *tx, row *entryRow) ([]string, error) {
		row.Failure, row.Attempts = columnOf(failureColumn{}), 0
		row.ReadAt, row.DueAt = micros(at), micros(next)
		columns := []string{"failure", "attempts", "read_at", "due_at"}
		last, err := openEntry(t.store.keys, row)
		if err != nil || last != nil && last.Equal(entry) {
			return columns, err
		}
		if row.Sealed, err = sealEntry(t.store.keys, id, entry); err != nil {
			return nil, err
		}
		row.Version = entry.Version
		return append(columns, "sealed", "version"), nil
	})
}

// Fail implements configs.Entries.
func (e *Entries) Fail(ctx context.Context, backendUID, path string, failed configs.Failed, at time.Time) (isChanged bool, err error) {
	return e.change(ctx, entryID(backendUID, path), at, func(_ *tx, row *entryRow) ([]string, error) {
		// A refusal stays until there is another answer: an unknown state gives nothing back.
		if failed.IsRefused || !row.Failure.v.IsRefused {
			row.Failure = columnOf(failureColumn{
				Message: failed.Message, IsRefused: failed.IsRefused, IsAbsent: failed.IsAbsent, IsOverdue: failed.IsOverdue,
				Since: cmp.Or(row.Failure.v.Since, micros(at)),
			})
		}
		row.Attempts++
		row.DueAt = micros(failed.Next)
		return []string{"failure", "attempts", "due_at"}, nil
	})
}

// change writes an entry that was asked for at a time, and decides again what services obtain of
// it. An entry that is gone, or was asked for later by another replica, stays as it is. The edit
// begins quietly: it becomes a change of the catalog only if services obtain something else.
func (e *Entries) change(ctx context.Context, id string, at time.Time, edit func(*tx, *entryRow) (columns []string, err error)) (isChanged bool, err error) {
	err = e.store.editWith(ctx, quietly, func(ctx context.Context, t *tx) error {
		isChanged = false
		row := &entryRow{ID: id}
		err := t.sql.NewSelect().Model(row).WherePK().Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) || err == nil && row.TriedAt > micros(at) {
			return nil
		}
		if err != nil {
			return translate("read entry", err)
		}
		columns, err := edit(t, row)
		if err != nil {
			return err
		}
		row.TriedAt, t.dirty = micros(at), true
		if _, err := t.sql.NewUpdate().Model(row).Column(append(columns, "tried_at")...).WherePK().Exec(ctx); err != nil {
			return translate("write entry", err)
		}
		isChanged, err = settleReaders(ctx, t, "ce.id = ?", id)
		return err
	})
	return isChanged && err == nil, err
}

// Hasten implements configs.Entries.
func (e *Entries) Hasten(ctx context.Context, backendUID, path string, now time.Time) (int, error) {
	query := e.store.db.NewUpdate().Table("config_entries").Set("due_at = ?", micros(now)).Set("attempts = 0").
		Where("backend_uid = ?", backendUID).Where(isReferredTo("config_entries"))
	if path != "" {
		query = query.Where("path = ?", path)
	}
	result, err := query.Exec(ctx)
	if err != nil {
		return 0, translate("make entries due", err)
	}
	n, err := result.RowsAffected()
	return int(n), translate("count rows", err)
}

// Prune implements configs.Entries. An entry without references is not read, so the time when it
// was due stands for when it was last of use.
func (e *Entries) Prune(ctx context.Context, now time.Time) error {
	_, err := e.store.db.NewDelete().Table("config_entries").Where("due_at < ?", micros(now.Add(-unusedLife))).
		Where("NOT " + isReferredTo("config_entries")).Exec(ctx)
	return translate("forget unused entries", err)
}

// Backend implements configs.Entries.
func (e *Entries) Backend(ctx context.Context, uid string) (*catalog.ConfigBackend, error) {
	return storedBackends.byUID(ctx, e.store, uid)
}

// Hook implements backendhook.Backends.
func (e *Entries) Hook(ctx context.Context, name string) (uid string, proof secret.Text, err error) {
	err = e.store.opening(ctx, func(ctx context.Context) error {
		uid, proof = "", ""
		row, err := storedBackends.find(ctx, e.store.db, "name", name)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translate("read configuration back end", err)
		}
		backend := storedBackends.object(row)
		err = backendHook.give(e.store.keys, backend, row)
		uid, proof = row.UID, backend.Spec.WebhookSecret
		return err
	})
	return uid, proof, err
}

// sealedEntry is the stored form of an entry.
type sealedEntry struct {
	Fields  map[string]string `json:"fields"`
	Version string            `json:"version,omitempty"`
	NotText []string          `json:"notText,omitempty"`
}

// sealEntry binds an entry to its id.
func sealEntry(k *keyStore, id string, entry configs.Entry) ([]byte, error) {
	return entryValues.sealJSON(k, id, sealedEntry{Fields: revealed(entry.Fields), Version: entry.Version, NotText: entry.NotText})
}

// openEntry returns the last good answer of a row; nil if there is none.
func openEntry(k *keyStore, row *entryRow) (*configs.Entry, error) {
	if len(row.Sealed) == 0 {
		return nil, nil
	}
	var plain sealedEntry
	if err := entryValues.openJSON(k, row.ID, row.Sealed, &plain); err != nil {
		return nil, err
	}
	return &configs.Entry{Fields: configs.FieldsOf(plain.Fields), Version: plain.Version, NotText: plain.NotText}, nil
}

// stateOf returns the state of an entry.
func stateOf(k *keyStore, row *entryRow) (configs.State, error) {
	f := row.Failure.v
	last, err := openEntry(k, row)
	return configs.State{
		Last: last, ReadAt: timeOf(row.ReadAt), Failure: f.Message, IsRefused: f.IsRefused, IsAbsent: f.IsAbsent, IsOverdue: f.IsOverdue,
	}, err
}
