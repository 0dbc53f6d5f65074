// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// storage says how the objects of a kind are stored: each as one row of a table.
type storage[T catalog.Object, R row] struct {
	kind catalog.Kind
	// row returns an object's own columns, and object the reverse. Neither sees secrets. Metadata is added to the row,
	// and is in it for object.
	row    func(T) R
	object func(R) T
	// columns are those that an edit of a stored object writes, beside metadata and secrets.
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

// ownedColumns are those of objects in projects. The project follows from the name, which is the object's path; the
// column is for counting.
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

	// at returns the column in a row. An absent secret is nil.
	at func(R) *[]byte
	// plain returns the secret of an object whose row is otherwise complete, or nil if it has none. give is the reverse.
	plain func(T, R) ([]byte, error)
	give  func(T, []byte) error
	// isExpected reports whether the rest of the row says that there is a secret. Nil: it does not say.
	isExpected func(R) bool
}

// sealedText is a column of one secret.
func sealedText[T catalog.Object, R row](column sealedColumn, at func(R) *[]byte, text func(T) *secret.Text) sealedPart[T, R] {
	return sealedPart[T, R]{
		sealedColumn: column, at: at,
		plain: func(object T, _ R) ([]byte, error) { return []byte(text(object).Reveal()), nil },
		give: func(object T, plain []byte) error {
			*text(object) = secret.Text(plain)
			return nil
		},
	}
}

// sealedJSON is a column of several secrets as JSON. of reports false if an object has none of them. Errors hold no part
// of the JSON.
func sealedJSON[T catalog.Object, R row, V any](column sealedColumn, at func(R) *[]byte, of func(T) (V, bool), give func(T, V)) sealedPart[T, R] {
	return sealedPart[T, R]{
		sealedColumn: column, at: at,
		plain: func(object T, _ R) ([]byte, error) {
			value, ok := of(object)
			if !ok {
				return nil, nil
			}
			plain, err := json.Marshal(value)
			if err != nil {
				return nil, errors.New("not to be written as JSON")
			}
			return plain, nil
		},
		give: func(object T, plain []byte) error {
			var value V
			if err := json.Unmarshal(plain, &value); err != nil {
				return errors.New("not the JSON that was sealed")
			}
			give(object, value)
			return nil
		},
	}
}

// expectedIf returns the part of a kind whose rows say whether there is a secret: one that is missing does not open.
func (p sealedPart[T, R]) expectedIf(isExpected func(R) bool) sealedPart[T, R] {
	p.isExpected = isExpected
	return p
}

// seal puts the secret of an object into its row.
func (p *sealedPart[T, R]) seal(k *keyStore, object T, row R) error {
	plain, err := p.plain(object, row)
	if err == nil && len(plain) > 0 {
		*p.at(row), err = p.sealedColumn.seal(k, row.uid(), plain)
	}
	if err != nil {
		return fmt.Errorf("seal %s of %s: %w", p.words(), object.Key(), err)
	}
	return nil
}

// open gives an object the secret in its row.
func (p *sealedPart[T, R]) open(k *keyStore, object T, row R) error {
	sealed := *p.at(row)
	if len(sealed) == 0 && (p.isExpected == nil || !p.isExpected(row)) {
		return nil
	}
	plain, err := p.sealedColumn.open(k, row.uid(), sealed)
	if err == nil {
		err = p.give(object, plain)
	}
	if err != nil {
		return fmt.Errorf("open %s of %s: %w", p.words(), object.Key(), err)
	}
	return nil
}

// words names the column in messages.
func (p *sealedPart[T, R]) words() string { return strings.ReplaceAll(p.column, "_", " ") }

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
	for i := range s.secrets {
		if err := s.secrets[i].open(k, object, row); err != nil {
			return object, err
		}
	}
	return object, nil
}

// find returns the row with that value in a column that identifies it. Error: sql.ErrNoRows.
func (s *storage[T, R]) find(ctx context.Context, db bun.IDB, column, value string) (row R, err error) {
	var rows []R
	err = db.NewSelect().Model(&rows).Where("? = ?", bun.Ident(column), value).Scan(ctx)
	if err != nil {
		return row, err
	}
	if len(rows) == 0 {
		return row, sql.ErrNoRows
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
