// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// authorRow is a stored author.
type authorRow struct {
	bun.BaseModel `bun:"table:authors,alias:au"`
	ObjectUID     string `bun:"object_uid,pk"`
	Subject       string `bun:"subject,pk"`
	Revision      int64  `bun:"revision"`
	At            int64  `bun:"at"`
}

func (r *authorRow) author() catalog.Author {
	return catalog.Author{ObjectUID: r.ObjectUID, Subject: r.Subject, Revision: r.Revision, At: timeOf(r.At)}
}

// Authors implements catalog.Tx.
func (t *tx) Authors(ctx context.Context, uid string) ([]catalog.Author, error) {
	var authors []catalog.Author
	err := list(ctx, t.sql.NewSelect().Where("object_uid = ?", uid).Order("revision"), &authors, (*authorRow).author)
	return authors, translate("read authors", err)
}

// PutAuthors implements catalog.Tx.
func (t *tx) PutAuthors(ctx context.Context, authors []catalog.Author) error {
	for _, a := range authors {
		t.dirty = true
		row := &authorRow{ObjectUID: a.ObjectUID, Subject: a.Subject, Revision: a.Revision, At: micros(a.At)}
		if err := replace(ctx, t.sql, row, "object_uid, subject", "revision", "at"); err != nil {
			return translate("write author", err)
		}
		eldest := t.sql.NewSelect().Model((*authorRow)(nil)).Column("revision").Where("object_uid = ?", a.ObjectUID).
			Order("revision DESC").Offset(catalog.MaxAuthors - 1).Limit(1)
		_, err := t.sql.NewDelete().Model((*authorRow)(nil)).Where("object_uid = ? AND revision < (?)", a.ObjectUID, eldest).Exec(ctx)
		if err != nil {
			return translate("forget authors", err)
		}
	}
	return nil
}

// forgetAuthors deletes the authors of an object.
func forgetAuthors(ctx context.Context, db bun.IDB, uid string) error {
	_, err := db.NewDelete().Model((*authorRow)(nil)).Where("object_uid = ?", uid).Exec(ctx)
	return translate("forget authors", err)
}
