// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxKeys bounds the values that one statement selects by.
	maxKeys = 500
	// maxRows bounds the rows that one statement writes.
	maxRows = 500
)

// metaColumns are the columns of catalog.Metadata.
type metaColumns struct {
	UID             string                    `bun:"uid,pk"`
	Name            string                    `bun:"name"`
	Labels          column[map[string]string] `bun:"labels"`
	Annotations     column[map[string]string] `bun:"annotations"`
	ResourceVersion int64                     `bun:"resource_version"`
	Generation      int64                     `bun:"generation"`
	Revision        int64                     `bun:"revision"`
	CreatedAt       int64                     `bun:"created_at"`
	UpdatedAt       int64                     `bun:"updated_at"`
	CreatedBy       string                    `bun:"created_by"`
	UpdatedBy       string                    `bun:"updated_by"`
	Reason          string                    `bun:"reason"`
	Manager         string                    `bun:"manager"`
	ManagerUID      string                    `bun:"manager_uid"`
}

// editLockRow is the lock of edits, with what every edit needs to know.
type editLockRow struct {
	bun.BaseModel `bun:"table:revision,alias:rev"`
	ID            int    `bun:"id,pk"`
	Value         int64  `bun:"value"`
	SealingKey    string `bun:"sealing_key"`
	Incarnation   string `bun:"incarnation"`
}

type reportRow struct {
	bun.BaseModel      `bun:"table:service_reports,alias:sr"`
	ServiceUID         string `bun:"service_uid,pk"`
	Service            string `bun:"service,scanonly"`
	Report             string `bun:"report"`
	Entry              string `bun:"entry"`
	ObservedGeneration int64  `bun:"observed_generation"`
	Revision           int64  `bun:"revision"`
}

type deletionRow struct {
	bun.BaseModel `bun:"table:deletions,alias:d"`
	UID           string `bun:"uid,pk"`
	Kind          string `bun:"kind"`
	Name          string `bun:"name"`
	Revision      int64  `bun:"revision"`
	DeletedAt     int64  `bun:"deleted_at"`
}

// micros is the stored form of a time; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// column is a value that SQL does not look into. It is stored as its JSON. An empty text, which old
// rows hold in columns that were added later, is read as the zero value.
type column[T any] struct{ v T }

func columnOf[T any](v T) column[T] { return column[T]{v} }

// Value implements driver.Valuer.
func (c column[T]) Value() (driver.Value, error) { return encode(c.v) }

// Scan implements sql.Scanner.
func (c *column[T]) Scan(src any) error {
	*c = column[T]{}
	var text sql.NullString
	if err := text.Scan(src); err != nil || text.String == "" {
		return err
	}
	return json.Unmarshal([]byte(text.String), &c.v)
}

// encode is the stored form of a value that SQL does not look into.
func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode column: %w", err)
	}
	return string(text), nil
}

func decode(column, text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("decode column %s: %w", column, err)
	}
	return nil
}

// revealed returns secrets to be sealed, and concealed is the reverse.
func revealed(secrets map[string]secret.Text) map[string]string {
	plain := make(map[string]string, len(secrets))
	for key, text := range secrets {
		plain[key] = text.Reveal()
	}
	return plain
}

func concealed(plain map[string]string) map[string]secret.Text {
	secrets := make(map[string]secret.Text, len(plain))
	for key, text := range plain {
		secrets[key] = secret.Text(text)
	}
	return secrets
}

func metaRow(m *catalog.Metadata, revision int64) metaColumns {
	return metaColumns{
		UID:             m.UID,
		Name:            m.Name,
		Labels:          columnOf(m.Labels),
		Annotations:     columnOf(m.Annotations),
		ResourceVersion: m.ResourceVersion,
		Generation:      m.Generation,
		Revision:        revision,
		CreatedAt:       micros(m.CreatedAt),
		UpdatedAt:       micros(m.UpdatedAt),
		CreatedBy:       m.CreatedBy,
		UpdatedBy:       m.UpdatedBy,
		Reason:          m.Reason,
		Manager:         m.Manager.Path,
		ManagerUID:      m.Manager.UID,
	}
}

// shared returns the one copy of a text that many objects have, such as who made them.
func shared(text string) string { return unique.Make(text).Value() }

func (r *metaColumns) metadata() catalog.Metadata {
	return catalog.Metadata{
		Name:            r.Name,
		UID:             r.UID,
		Labels:          r.Labels.v,
		Annotations:     r.Annotations.v,
		ResourceVersion: r.ResourceVersion,
		Generation:      r.Generation,
		CreatedAt:       timeOf(r.CreatedAt),
		UpdatedAt:       timeOf(r.UpdatedAt),
		CreatedBy:       shared(r.CreatedBy),
		UpdatedBy:       shared(r.UpdatedBy),
		Reason:          r.Reason,
		Manager:         catalog.SourceRef{Path: shared(r.Manager), UID: shared(r.ManagerUID)},
	}
}

// withService adds the names of the services that reports are about.
func withService(query *bun.SelectQuery) *bun.SelectQuery {
	return query.ColumnExpr("sr.*, s.name AS service").Join("JOIN services AS s ON s.uid = sr.service_uid")
}

func (r *reportRow) stored() catalog.StoredReport {
	report, damage := decodeReport(r.Report)
	return catalog.StoredReport{
		Service:            r.Service,
		ServiceUID:         r.ServiceUID,
		Report:             report,
		Damage:             damage,
		Entry:              r.Entry,
		ObservedGeneration: r.ObservedGeneration,
	}
}

// decodeReport returns a stored report, or why it cannot be read. A caller that failed for one report
// would withhold all others.
func decodeReport(text string) (report *catalog.ServiceReport, damage error) {
	if err := decode("report", text, &report); err != nil {
		return nil, err
	}
	return report, nil
}

func (r *deletionRow) tombstone() catalog.Tombstone {
	return catalog.Tombstone{Key: catalog.Key{Kind: catalog.Kind(r.Kind), Name: r.Name}, UID: r.UID, Revision: r.Revision}
}

// list reads the rows of a query, and converts them.
func list[Row, Value any](ctx context.Context, query *bun.SelectQuery, values *[]Value, convert func(*Row) Value) error {
	return tryList(ctx, query, values, func(row *Row) (Value, error) { return convert(row), nil })
}

// tryList is list for rows that may hold what cannot be converted.
func tryList[Row, Value any](
	ctx context.Context, query *bun.SelectQuery, values *[]Value, convert func(*Row) (Value, error),
) error {
	var rows []*Row
	err := query.Model(&rows).Scan(ctx)
	*values = make([]Value, len(rows))
	for i := 0; i < len(rows) && err == nil; i++ {
		(*values)[i], err = convert(rows[i])
	}
	return err
}

// replace writes a row, or the rows of a slice. Of a row that is there, known by the columns of the
// key, it writes only the given columns.
func replace(ctx context.Context, db bun.IDB, rows any, key string, columns ...string) error {
	return replaceBy(ctx, db.NewInsert().Model(rows), key, columns...)
}

// replaceBy is replace with the rows of an insert.
func replaceBy(ctx context.Context, query *bun.InsertQuery, key string, columns ...string) error {
	query = query.On("CONFLICT (" + key + ") DO UPDATE")
	for _, column := range columns {
		query = query.Set("? = EXCLUDED.?", bun.Ident(column), bun.Ident(column))
	}
	_, err := query.Exec(ctx)
	return err
}

// replaceAll is replace for any number of rows.
func replaceAll[Row any](ctx context.Context, db bun.IDB, rows []Row, key string, columns ...string) error {
	for chunk := range slices.Chunk(rows, maxRows) {
		if err := replace(ctx, db, &chunk, key, columns...); err != nil {
			return err
		}
	}
	return nil
}

// insertAll adds any number of rows, none of which may be there.
func insertAll[Row any](ctx context.Context, db bun.IDB, rows []Row) error {
	for chunk := range slices.Chunk(rows, maxRows) {
		if _, err := db.NewInsert().Model(&chunk).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
