// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

type tokenRow struct {
	bun.BaseModel `bun:"table:api_tokens,alias:t"`
	Hash          []byte `bun:"hash,pk"`
	UserUID       string `bun:"user_uid"`
	User          string `bun:"user_name,scanonly"`
	Label         string `bun:"label"`
	CreatedAt     int64  `bun:"created_at"`
	ExpiresAt     int64  `bun:"expires_at"`
	LastUsedAt    int64  `bun:"last_used_at"`
	Revision      int64  `bun:"revision"`
}

func (r *tokenRow) token() catalog.Token {
	return catalog.Token{
		ID: admission.TokenID(r.Hash), User: r.User, UserUID: r.UserUID, Label: r.Label,
		CreatedAt: timeOf(r.CreatedAt), ExpiresAt: timeOf(r.ExpiresAt), LastUsedAt: timeOf(r.LastUsedAt),
	}
}

// unused returns the token without its last use, which is not a change of the catalog.
func (r *tokenRow) unused() catalog.Token {
	r.LastUsedAt = 0
	return r.token()
}

// EnsureToken implements catalog.People. It takes no revision where everything is so already.
func (s *Store) EnsureToken(ctx context.Context, user catalog.User, label string, hash []byte, expires time.Time) error {
	return s.edit(ctx, func(ctx context.Context, t *tx) error {
		uid, err := t.ensureUser(ctx, user)
		if err != nil {
			return err
		}
		var rows []*tokenRow
		if err := withUser(t.sql.NewSelect().Model(&rows)).Where("user_uid = ? AND label = ? OR hash = ?", uid, label, hash).Scan(ctx); err != nil {
			return translate("read tokens", err)
		}
		there := false
		for _, row := range rows {
			if slices.Equal(row.Hash, hash) && row.UserUID == uid && row.Label == label && row.ExpiresAt == micros(expires) {
				there = true
				continue
			}
			if err := t.dropToken(ctx, row); err != nil {
				return err
			}
		}
		if there {
			return nil
		}
		return t.putToken(ctx, &tokenRow{Hash: hash, UserUID: uid, User: user.Name, Label: label, ExpiresAt: micros(expires)})
	})
}

// ensureUser returns the uid of the user, who has the groups afterwards.
func (t *tx) ensureUser(ctx context.Context, user catalog.User) (string, error) {
	object, err := t.Get(ctx, catalog.Key{Kind: catalog.KindUser, Name: user.Name})
	stored, _ := object.(*catalog.User)
	now := time.Now()
	switch {
	case errors.Is(err, catalog.ErrNotFound):
		stored = &catalog.User{Metadata: catalog.Metadata{Name: user.Name, UID: rand.Text(), CreatedAt: now}}
	case err != nil:
		return "", err
	case slices.Equal(stored.Spec.Groups, user.Spec.Groups):
		return stored.UID, nil
	}
	next, by := *stored, catalog.OriginOf(ctx).By()
	next.Spec.Groups = user.Spec.Groups
	next.Generation++
	next.ResourceVersion, next.UpdatedAt, next.UpdatedBy, next.Reason = t.revision, now, by, ""
	if next.CreatedBy == "" && next.Generation == 1 {
		next.CreatedBy = by
	}
	return next.UID, t.Put(ctx, &next)
}

func (t *tx) putToken(ctx context.Context, row *tokenRow) error {
	t.dirty = true
	row.Revision, row.CreatedAt = t.revision, micros(time.Now())
	token := row.unused()
	t.note(catalog.Change{Verb: catalog.VerbCreate, Kind: string(catalog.KindToken), Name: token.ID, UID: token.UserUID, After: token})
	_, err := t.sql.NewInsert().Model(row).Exec(ctx)
	return translate("write token", err)
}

// dropToken ends a token. The same one may come back, and go again, as the admin's does that is set
// from outside: so the uid of its tombstone is not its id alone.
func (t *tx) dropToken(ctx context.Context, row *tokenRow) error {
	t.dirty = true
	if _, err := t.sql.NewDelete().Model(row).WherePK().Exec(ctx); err != nil {
		return translate("delete token", err)
	}
	id, token := admission.TokenID(row.Hash), row.unused()
	t.note(catalog.Change{Verb: catalog.VerbDelete, Kind: string(catalog.KindToken), Name: id, UID: token.UserUID, Before: token})
	return t.bury(ctx, catalog.Key{Kind: catalog.KindToken, Name: id}, id+"."+strconv.FormatInt(t.revision, 10))
}

// withUser adds whose the tokens are.
func withUser(query *bun.SelectQuery) *bun.SelectQuery {
	return query.ColumnExpr("t.*, u.name AS user_name").Join("JOIN users AS u ON u.uid = t.user_uid")
}

// UserByToken implements catalog.People.
func (s *Store) UserByToken(ctx context.Context, hash []byte) (catalog.SignIn, error) {
	token, row := new(tokenRow), new(userRow)
	err := s.read(ctx, "read token", func(ctx context.Context, tx bun.Tx) error {
		if err := withUser(tx.NewSelect().Model(token)).Where("t.hash = ?", hash).Scan(ctx); err != nil {
			return err
		}
		return tx.NewSelect().Model(row).Where("uid = ?", token.UserUID).Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return catalog.SignIn{}, catalog.ErrNotFound
	}
	if err != nil {
		return catalog.SignIn{}, err
	}
	if token.token().Expired(time.Now()) {
		return catalog.SignIn{}, catalog.ErrNotFound
	}
	return catalog.SignIn{User: row.user(), Token: token.token()}, nil
}

// TouchToken implements catalog.People.
func (s *Store) TouchToken(ctx context.Context, hash []byte, at time.Time) error {
	_, err := s.db.NewUpdate().Model((*tokenRow)(nil)).Set("last_used_at = ?", micros(at)).Where("hash = ?", hash).Exec(ctx)
	return translate("write use of token", err)
}

// CreateToken implements catalog.People.
func (s *Store) CreateToken(ctx context.Context, user, label string, hash []byte, expires time.Time) (catalog.Token, error) {
	var token catalog.Token
	err := s.edit(ctx, func(ctx context.Context, t *tx) error {
		owner, err := t.Get(ctx, catalog.Key{Kind: catalog.KindUser, Name: user})
		if err != nil {
			return err
		}
		row := &tokenRow{Hash: hash, UserUID: owner.Meta().UID, User: user, Label: label, ExpiresAt: micros(expires)}
		if err := t.putToken(ctx, row); err != nil {
			return err
		}
		token = row.token()
		return nil
	})
	return token, err
}

// ListTokens implements catalog.People.
func (s *Store) ListTokens(ctx context.Context, user string) ([]catalog.Token, error) {
	query := withUser(s.db.NewSelect()).Order("u.name", "t.label", "t.hash")
	if user != "" {
		query = query.Where("u.name = ?", user)
	}
	var tokens []catalog.Token
	err := list(ctx, query, &tokens, (*tokenRow).token)
	return tokens, translate("list tokens", err)
}

// DeleteToken implements catalog.People. There are few tokens, and it is rarely called, so that it
// may look at all of them.
func (s *Store) DeleteToken(ctx context.Context, id string) error {
	return s.edit(ctx, func(ctx context.Context, t *tx) error {
		var rows []*tokenRow
		if err := withUser(t.sql.NewSelect().Model(&rows)).Scan(ctx); err != nil {
			return translate("read tokens", err)
		}
		found := slices.IndexFunc(rows, func(row *tokenRow) bool { return admission.TokenID(row.Hash) == id })
		if found < 0 {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindToken, Name: id}}
		}
		return t.dropToken(ctx, rows[found])
	})
}
