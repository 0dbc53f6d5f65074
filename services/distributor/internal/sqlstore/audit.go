// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
)

// Records are the stored records of changes. They are safe for concurrent use.
type Records struct{ store *Store }

var _ journal.Store = Records{}

// RecordsOf returns the records in a store's database.
func RecordsOf(s *Store) Records { return Records{store: s} }

// WithJournal returns a Store of the same database that records changes: in SQL in the transaction
// of the change, and with the journal directly before that is committed.
func (s *Store) WithJournal(j Journal) *Store {
	recorded := *s
	recorded.journal = j
	return &recorded
}

// ready blocks until the audit log takes records. Without a journal it does not block.
func ready(ctx context.Context, j Journal) error {
	if j == nil {
		return nil
	}
	return j.Ready(ctx)
}

// recordChanges stores the records of an edit's changes, and has the journal write them. It is the
// last thing that an edit does. With an error the edit must not be committed.
func recordChanges(ctx context.Context, j Journal, sqlTx bun.Tx, changes []catalog.Change) ([]*audit.Record, error) {
	if j == nil || len(changes) == 0 {
		return nil, nil
	}
	records := j.Records(ctx, changes)
	if err := keep(ctx, sqlTx, records); err != nil {
		return nil, translate("write audit records", err)
	}
	if err := j.Write(ctx, records); err != nil {
		return nil, err
	}
	return records, nil
}

// writeRecorded runs fn in a transaction that takes no revision, and records the change.
func writeRecorded(ctx context.Context, s *Store, change catalog.Change, fn func(context.Context, bun.IDB) error) error {
	if s.journal == nil {
		return fn(ctx, s.db)
	}
	if err := ready(ctx, s.journal); err != nil {
		return err
	}
	var own error
	var written []*audit.Record
	err := s.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error {
		if own = fn(ctx, sqlTx); own == nil {
			written, own = recordChanges(ctx, s.journal, sqlTx, []catalog.Change{change})
		}
		return own
	})
	if own != nil {
		return own
	}
	if err != nil && len(written) > 0 {
		s.journal.Withdraw(written)
	}
	return translate("write "+change.Kind, err)
}

// auditRow is a stored record. Queried fields have columns of their own.
type auditRow struct {
	bun.BaseModel `bun:"table:audit_records,alias:ar"`
	Seq           int64     `bun:"seq,pk"`
	ID            string    `bun:"id"`
	RequestID     string    `bun:"request_id"`
	MadeAt        int64     `bun:"made_at"`
	Subject       string    `bun:"subject"`
	TokenID       string    `bun:"token_id"`
	Credential    string    `bun:"credential"`
	Kind          string    `bun:"kind"`
	Name          string    `bun:"name"`
	Cluster       string    `bun:"cluster"`
	Verb          string    `bun:"verb"`
	RPC           string    `bun:"rpc"`
	Outcome       string    `bun:"outcome"`
	Claims        string    `bun:"claims"`
	Record        auditJSON `bun:"record"`
}

// auditColumn holds the fields that are not queried.
type auditColumn struct {
	TraceID    string              `json:"trace_id,omitempty"`
	SubjectUID string              `json:"subject_uid,omitempty"`
	Procedure  string              `json:"procedure,omitempty"`
	Address    string              `json:"source_address,omitempty"`
	UserAgent  string              `json:"user_agent,omitempty"`
	ObjectUID  string              `json:"object_uid,omitempty"`
	Reason     string              `json:"stated_reason,omitempty"`
	TokenLimit string              `json:"token_limit,omitempty"`
	Changes    []audit.FieldChange `json:"changes,omitempty"`
	Omitted    int                 `json:"changes_omitted,omitempty"`
	Count      int64               `json:"count,omitempty"`
	Since      int64               `json:"since,omitempty"`
}

// auditJSON is an auditColumn as JSON, with the characters that HTML uses as they are.
type auditJSON struct{ auditColumn }

// Value implements driver.Valuer.
func (c auditJSON) Value() (driver.Value, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c.auditColumn); err != nil {
		return nil, fmt.Errorf("encode audit record: %w", err)
	}
	return b.String(), nil
}

// Scan implements sql.Scanner.
func (c *auditJSON) Scan(src any) error {
	column := columnOf(auditColumn{})
	err := column.Scan(src)
	c.auditColumn = column.v
	return err
}

func auditRowOf(e journal.Entry) *auditRow {
	return &auditRow{
		Seq: e.Sequence, ID: e.ID, RequestID: e.RequestID, MadeAt: micros(e.Time), Subject: e.Subject, TokenID: e.TokenID,
		Credential: e.Credential, Kind: e.Kind, Name: e.Name, Cluster: e.Cluster, Verb: e.Verb, RPC: e.RPC(), Outcome: e.Outcome,
		Claims: claimLines(e.Claims),
		Record: auditJSON{auditColumn{
			TraceID: e.TraceID, SubjectUID: e.SubjectUID, Procedure: e.Procedure, Address: e.SourceAddress, UserAgent: e.UserAgent,
			ObjectUID: e.ObjectUID, Reason: e.Reason, TokenLimit: e.TokenLimit, Changes: e.Changes, Omitted: e.Omitted, Count: e.Count, Since: micros(e.Since),
		}},
	}
}

func (r *auditRow) entry() journal.Entry {
	c := r.Record.auditColumn
	return journal.Entry{
		Sequence: r.Seq, ID: r.ID, Time: timeOf(r.MadeAt),
		Origin: catalog.Origin{
			Subject: r.Subject, SubjectUID: c.SubjectUID, TokenID: r.TokenID, Credential: r.Credential, SourceAddress: c.Address,
			UserAgent: c.UserAgent, Procedure: c.Procedure, RequestID: r.RequestID, TraceID: c.TraceID, Reason: c.Reason,
			Claims: claimsIn(r.Claims), TokenLimit: c.TokenLimit,
		},
		Verb: r.Verb, Kind: r.Kind, Name: r.Name, Cluster: r.Cluster, ObjectUID: c.ObjectUID, Outcome: r.Outcome,
		Changes: c.Changes, Omitted: c.Omitted, Count: c.Count, Since: timeOf(c.Since),
	}
}

// claimLines returns the stored form of claims: a line NAME=VALUE for each, and a line break on both
// sides of each, so that one can be searched for. Names hold no "=", and values no line break.
func claimLines(claims map[string]string) string {
	if len(claims) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteByte('\n')
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		b.WriteString(claimLine(name, claims[name]) + "\n")
	}
	return b.String()
}

func claimLine(name, value string) string { return name + "=" + value }

// claimsIn returns the claims in their stored form; nil for none.
func claimsIn(lines string) map[string]string {
	var claims map[string]string
	for line := range strings.Lines(strings.TrimPrefix(lines, "\n")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if claims == nil {
			claims = map[string]string{}
		}
		claims[name] = value
	}
	return claims
}

// keep stores records under the next numbers.
func keep(ctx context.Context, sqlTx bun.Tx, records []*audit.Record) error {
	var last int64
	take := sqlTx.NewRaw("UPDATE audit_sequence SET value = value + ? WHERE id = 1 RETURNING value", len(records))
	if err := take.Scan(ctx, &last); err != nil {
		return err
	}
	rows := make([]*auditRow, len(records))
	for i, record := range records {
		entry := journal.EntryOf(record)
		entry.Sequence = last - int64(len(records)-1-i)
		rows[i] = auditRowOf(entry)
	}
	for start := 0; start < len(rows); start += maxRows {
		chunk := rows[start:min(start+maxRows, len(rows))]
		if _, err := sqlTx.NewInsert().Model(&chunk).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Keep implements journal.Store.
func (r Records) Keep(ctx context.Context, records []*audit.Record) error {
	err := r.store.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error { return keep(ctx, sqlTx, records) })
	return translate("write audit records", err)
}

// Find implements journal.Store.
func (r Records) Find(ctx context.Context, q journal.Query) (page journal.Page, err error) {
	err = r.store.read(ctx, "read audit records", func(ctx context.Context, sqlTx bun.Tx) error {
		page = journal.Page{}
		window, err := windowOf(ctx, sqlTx, q)
		if err != nil {
			return err
		}
		query := matching(sqlTx.NewSelect(), q).Where("seq > ? AND seq <= ?", window.above, window.upTo).Limit(int64(q.Limit))
		if q.After > 0 {
			query = query.Order("seq")
		} else {
			query = query.OrderExpr("seq DESC")
		}
		if err := list(ctx, query, &page.Entries, (*auditRow).entry); err != nil {
			return err
		}
		page.Next, page.Latest = window.next(q, page.Entries), window.top
		return nil
	})
	return page, err
}

// window is the range of numbers that one call looks through.
type window struct {
	above, upTo int64
	// bottom is the number below the oldest record that can match, and top the latest number.
	bottom, top int64
}

// windowOf bounds what one call looks through.
func windowOf(ctx context.Context, sqlTx bun.Tx, q journal.Query) (w window, err error) {
	if err := sqlTx.NewRaw("SELECT value FROM audit_sequence WHERE id = 1").Scan(ctx, &w.top); err != nil {
		return w, err
	}
	if q.After > 0 {
		w.above = q.After
		w.upTo = min(w.top, w.above+journal.MaxLooked)
		return w, nil
	}
	w.upTo = w.top
	if q.Before > 0 {
		w.upTo = min(w.top, q.Before-1)
	}
	// Replicas whose clocks differ can number records in another order than their times.
	if w.bottom, err = numberAt(ctx, sqlTx, q.Since.Add(-clockSkew), w.top); err != nil {
		return w, err
	}
	if !q.Until.IsZero() {
		end, err := numberAt(ctx, sqlTx, q.Until.Add(clockSkew), w.top)
		if err != nil {
			return w, err
		}
		w.upTo = min(w.upTo, end)
	}
	w.above = max(w.bottom, w.upTo-journal.MaxLooked)
	return w, nil
}

// clockSkew is how much the clocks of replicas may differ.
const clockSkew = time.Minute

// numberAt returns the number below the first record from a time on, or top if no record is that late.
func numberAt(ctx context.Context, sqlTx bun.Tx, at time.Time, top int64) (int64, error) {
	var seq int64
	err := sqlTx.NewSelect().Table("audit_records").Column("seq").Where("made_at >= ?", max(at.UnixMicro(), 0)).
		Order("made_at", "seq").Limit(1).Scan(ctx, &seq)
	if errors.Is(err, sql.ErrNoRows) {
		return top, nil
	}
	return seq - 1, err
}

// next returns where the next call continues.
func (w window) next(q journal.Query, found []journal.Entry) int64 {
	isFull := len(found) == q.Limit
	switch {
	case q.After > 0 && isFull:
		return found[len(found)-1].Sequence
	case q.After > 0:
		return max(w.upTo, q.After)
	case isFull && found[len(found)-1].Sequence > w.bottom+1:
		return found[len(found)-1].Sequence
	case isFull || w.above <= w.bottom:
		return 0
	}
	return w.above + 1
}

// matching adds the conditions of a query.
func matching(query *bun.SelectQuery, q journal.Query) *bun.SelectQuery {
	for name, want := range map[string]string{
		"subject": q.Subject, "kind": q.Kind, "name": q.Name, "cluster": q.Cluster, "verb": q.Verb, "rpc": q.RPC, "request_id": q.RequestID,
	} {
		if want != "" {
			query = query.Where("? = ?", bun.Ident(name), want)
		}
	}
	if q.Token != "" {
		query = query.Where("(token_id = ? OR credential = ?)", q.Token, q.Token)
	}
	if len(q.Kinds) > 0 {
		query = query.Where("kind IN (?)", bun.List(q.Kinds))
	}
	for name, value := range q.Claims {
		// Unlike LIKE, REPLACE knows no wildcards, and tells letters apart in every database.
		query = query.Where("REPLACE(claims, ?, '') <> claims", "\n"+claimLine(name, value)+"\n")
	}
	switch q.Outcome {
	case "":
	case journal.OutcomeRefused:
		query = query.Where("outcome <> ?", journal.OutcomeOK)
	default:
		query = query.Where("outcome = ?", q.Outcome)
	}
	if !q.Since.IsZero() {
		query = query.Where("made_at >= ?", micros(q.Since))
	}
	if !q.Until.IsZero() {
		query = query.Where("made_at < ?", micros(q.Until))
	}
	return query
}
