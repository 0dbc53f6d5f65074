// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// storage defines how the objects of a kind are stored: each as one row of a table.
type storage[T catalog.Object, R row] struct {
	kind catalog.Kind
	// row returns an object's own columns, and object the reverse. Neither sees secrets. Metadata is added to the row,
	// and is in it for object.
	row    func(T) R
	object func(R) T
	// columns are the columns that an edit of a stored object writes, beside metadata and secrets.
	columns []string
	// secrets are the columns of sealed values.
	secrets []sealedPart[T, R]
	// changed returns where a batch of changes holds objects of the kind.
	changed func(*catalog.Changes) *[]T
}

// row is a pointer to the row of an object.
type row interface {
	// put sets the columns that every kind has, or every kind in projects.
	put(m metaColumns)
	// uid returns the uid of the object.
	uid() string
}

func (r *metaColumns) put(m metaColumns) { *r = m }
func (r *metaColumns) uid() string       { return r.UID }

// ownedColumns are the columns of objects in projects. The project follows from the name, which is
// the object's path; the column is for counting.
type ownedColumns struct {
	metaColumns
	Project string `bun:"project"`
}

func (r *ownedColumns) put(m metaColumns) { r.metaColumns, r.Project = m, objectname.Project(m.Name) }

// specColumns is the spec of a kind as one column of JSON. Secrets in it are not part of its JSON.
type specColumns[Spec any] struct {
	Spec column[Spec] `bun:"spec"`
}

func (c *specColumns[Spec]) spec() *Spec { return &c.Spec.v }

// inJSON returns the storage of a kind without columns of its own but the spec, in rows of type R. spec returns the spec
// of an object.
func inJSON[R, Spec, O any, T interface {
	*O
	catalog.Object
}, P interface {
	*R
	row
	spec() *Spec
	metadata() catalog.Metadata
}](kind catalog.Kind, spec func(T) *Spec, changed func(*catalog.Changes) *[]T, secrets ...sealedPart[T, P]) storage[T, P] {
	return storage[T, P]{
		kind: kind, columns: []string{"spec"}, secrets: secrets, changed: changed,
		row: func(object T) P {
			row := P(new(R))
			*row.spec() = *spec(object)
			return row
		},
		object: func(row P) T {
			object := T(new(O))
			*object.Meta(), *spec(object) = row.metadata(), *row.spec()
			return object
		},
	}
}

// sealedPart is a sealed column of a kind.
type sealedPart[T catalog.Object, R row] struct {
	sealedColumn

	// put seals the secret of an object into its row, if it has one. give is the reverse; it fails if the object has a
	// secret by what else is in the row, and the row has none.
	put, give func(k *keyStore, object T, row R) error
}

// sealedText is a column of one secret. An object without the secret has an empty text. at returns the column in a row.
func sealedText[T catalog.Object, R row](column sealedColumn, at func(R) *[]byte, text func(T) *secret.Text) sealedPart[T, R] {
	return sealedTextIf(column, at, text, func(object T, _ R) bool { return *text(object) != "" })
}

// sealedTextIf is sealedText for objects that have the secret in other cases.
func sealedTextIf[T catalog.Object, R row](
	column sealedColumn, at func(R) *[]byte, text func(T) *secret.Text, has func(T, R) bool,
) sealedPart[T, R] {
	return sealedPart[T, R]{
		sealedColumn: column,
		put: func(k *keyStore, object T, row R) (err error) {
			if has(object, row) {
				*at(row), err = column.seal(k, row.uid(), []byte(text(object).Reveal()))
			}
			return err
		},
		give: func(k *keyStore, object T, row R) error {
			if len(*at(row)) == 0 && !has(object, row) {
				return nil
			}
			plain, err := column.open(k, row.uid(), *at(row))
			*text(object) = secret.Text(plain)
			return err
		},
	}
}

// sealedJSON is a column of several secrets as JSON. has reports whether an object has some, also one that storage.object
// returns.
func sealedJSON[T catalog.Object, R row, V any](
	column sealedColumn, at func(R) *[]byte, has func(T) bool, of func(T) V, give func(T, V),
) sealedPart[T, R] {
	return sealedPart[T, R]{
		sealedColumn: column,
		put: func(k *keyStore, object T, row R) (err error) {
			if has(object) {
				*at(row), err = column.sealJSON(k, row.uid(), of(object))
			}
			return err
		},
		give: func(k *keyStore, object T, row R) error {
			if len(*at(row)) == 0 && !has(object) {
				return nil
			}
			var value V
			err := column.openJSON(k, row.uid(), *at(row), &value)
			if err == nil {
				give(object, value)
			}
			return err
		},
	}
}

// list returns the objects that a query selects, without their secrets.
func (s *storage[T, R]) list(ctx context.Context, query *bun.SelectQuery) ([]T, error) {
	var rows []R
	err := query.Model(&rows).Scan(ctx)
	objects := make([]T, len(rows))
	for i, row := range rows {
		objects[i] = s.object(row)
	}
	return objects, err
}

// opened returns the object of a row, with its secrets.
func (s *storage[T, R]) opened(k *keyStore, row R) (T, error) {
	object := s.object(row)
	for _, part := range s.secrets {
		if err := part.give(k, object, row); err != nil {
			return object, fmt.Errorf("%s: %w", object.Key(), err)
		}
	}
	return object, nil
}

// find returns the row with that value in a column that identifies it. Error: sql.ErrNoRows.
func (s *storage[T, R]) find(ctx context.Context, db bun.IDB, column, value string) (row R, err error) {
	var rows []R
	err = db.NewSelect().Model(&rows).Where("? = ?", bun.Ident(column), value).Scan(ctx)
	if err == nil && len(rows) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return row, err
	}
	return rows[0], nil
}

// byUID returns the object with that uid, with its secrets. Error: *catalog.NotFoundError.
func (s *storage[T, R]) byUID(ctx context.Context, store *Store, uid string) (object T, err error) {
	err = store.opening(ctx, func(ctx context.Context) error {
		row, err := s.find(ctx, store.db, "uid", uid)
		if errors.Is(err, sql.ErrNoRows) {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: s.kind, Name: uid}}
		}
		if err != nil {
			return translate("read "+string(s.kind), err)
		}
		object, err = s.opened(store.keys, row)
		return err
	})
	return object, err
}
