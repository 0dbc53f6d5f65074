// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var _ catalog.People = (*Tokens)(nil)

// Tokens keeps the API tokens of people. It is safe for concurrent use.
type Tokens struct{ store *Store }

// Tokens returns the part of the store about API tokens.
func (s *Store) Tokens() *Tokens { return &Tokens{s} }

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

	Limit        column[*catalog.TokenLimit] `bun:"token_limit"`
	CreatedBy    string                      `bun:"created_by"`
	MadeWith     string                      `bun:"made_with"`
	LastUsedFrom string                      `bun:"last_used_from"`
}

func (r *tokenRow) token() catalog.Token {
	return catalog.Token{
		ID: admission.TokenID(r.Hash), User: r.User, UserUID: r.UserUID, Label: r.Label,
		CreatedAt: timeOf(r.CreatedAt), CreatedBy: r.CreatedBy, ExpiresAt: timeOf(r.ExpiresAt), Limit: r.Limit.v, MadeWith: r.MadeWith,
		LastUsedAt: timeOf(r.LastUsedAt), LastUsedFrom: r.LastUsedFrom,
	}
}

// unused returns the token without its last use, which is not a change of the catalog.
func (r *tokenRow) unused() catalog.Token {
	r.LastUsedAt, r.LastUsedFrom = 0, ""
	return r.token()
}

// EnsureToken implements catalog.People. It takes no revision where everything is so already.
func (k *Tokens) EnsureToken(ctx context.Context, user catalog.User, label string, hash []byte, expires time.Time) error {
	return k.store.edit(ctx, func(ctx context.Context, t *tx) error {
		uid, err := (tokenTx{t}).ensureUser(ctx, user)
		if err != nil {
			return err
		}
		var rows []*tokenRow
		if err := withUser(t.sql.NewSelect().Model(&rows)).Where("user_uid = ? AND label = ? OR hash = ?", uid, label, hash).Scan(ctx); err != nil {
			return translate("read tokens", err)
		}
		there := false
		for _, row := range rows {
			if slices.Equal(row.Hash, hash) && row.UserUID == uid && row.Label == label && row.ExpiresAt == micros(expires) && row.Limit.v == nil {
				there = true
				continue
			}
			if err := (tokenTx{t}).dropWithMade(ctx, row.token().ID); err != nil {
				return err
			}
		}
		if there {
			return nil
		}
		return tokenTx{t}.putToken(ctx, &tokenRow{Hash: hash, UserUID: uid, User: user.Name, Label: label, ExpiresAt: micros(expires)})
	})
}

// tokenTx edits API tokens and their users within a transaction.
type tokenTx struct{ *tx }

// ensureUser returns the uid of the user, who has the groups afterwards.
func (t tokenTx) ensureUser(ctx context.Context, user catalog.User) (string, error) {
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

func (t tokenTx) putToken(ctx context.Context, row *tokenRow) error {
	t.dirty = true
	row.Revision, row.CreatedAt, row.CreatedBy = t.revision, micros(time.Now()), catalog.OriginOf(ctx).By()
	token := row.unused()
	t.note(catalog.Change{Verb: catalog.VerbCreate, Kind: string(catalog.KindToken), Name: token.ID, UID: token.UserUID, After: token})
	_, err := t.sql.NewInsert().Model(row).Exec(ctx)
	return translate("write token", err)
}

// dropToken ends a token. The same one may come back, and go again, as the admin's does that is set
// from outside: so the uid of its tombstone is not its id alone.
func (t tokenTx) dropToken(ctx context.Context, row *tokenRow) error {
	t.dirty = true
	if _, err := t.sql.NewDelete().Model(row).WherePK().Exec(ctx); err != nil {
		return translate("delete token", err)
	}
	id, token := admission.TokenID(row.Hash), row.unused()
	t.note(catalog.Change{Verb: catalog.VerbDelete, Kind: string(catalog.KindToken), Name: id, UID: token.UserUID, Before: token})
	if _, err := bootstrapTx(t).end(ctx, "made_with", id); err != nil {
		return err
	}
	return bury(ctx, t.tx, catalog.Key{Kind: catalog.KindToken, Name: id}, id+"."+strconv.FormatInt(t.revision, 10))
}

// withUser adds whose the tokens are.
func withUser(query *bun.SelectQuery) *bun.SelectQuery {
	return query.ColumnExpr("t.*, u.name AS user_name").Join("JOIN users AS u ON u.uid = t.user_uid")
}

// UserByToken implements catalog.People.
func (k *Tokens) UserByToken(ctx context.Context, hash []byte) (catalog.SignIn, error) {
	token, row := new(tokenRow), new(userRow)
	err := k.store.read(ctx, "read token", func(ctx context.Context, tx bun.Tx) error {
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
	return catalog.SignIn{User: storedUsers.object(row), Token: token.token()}, nil
}

// TouchTokens implements catalog.People. An id is the beginning of a hash.
func (k *Tokens) TouchTokens(ctx context.Context, uses []catalog.TokenUse) error {
	err := k.store.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, tx bun.Tx) error {
		for _, use := range uses {
			from, err := hex.DecodeString(use.ID)
			if err != nil || len(from) == 0 {
				continue // no token has such an id
			}
			query := tx.NewUpdate().Model((*tokenRow)(nil)).Set("last_used_at = ?", micros(use.At)).
				Where("hash >= ?", from).Where("last_used_at <= ?", micros(use.At))
			if to := after(from); to != nil {
				query = query.Where("hash < ?", to)
			}
			if use.From != "" {
				query = query.Set("last_used_from = ?", use.From)
			}
			if _, err := query.Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return translate("write uses of tokens", err)
}

// after returns the first text of bytes behind all that begin with the prefix; nil if there is none.
func after(prefix []byte) []byte {
	next := slices.Clone(prefix)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next[:i+1]
		}
	}
	return nil
}

// CreateToken implements catalog.People.
func (k *Tokens) CreateToken(ctx context.Context, made catalog.NewToken) (catalog.Token, error) {
	var token catalog.Token
	isUsed := false
	err := k.store.edit(ctx, func(ctx context.Context, t *tx) (err error) {
		if made.IsOnce {
			if isUsed, err = (tokenTx{t}).endUsed(ctx, admission.TokenID(made.Hash)); isUsed || err != nil {
				return err
			}
		}
		owner, err := t.Get(ctx, catalog.Key{Kind: catalog.KindUser, Name: made.User})
		if err != nil {
			return err
		}
		if err := (tokenTx{t}).checkMaker(ctx, made.MadeWith); err != nil {
			return err
		}
		if err := (tokenTx{t}).makeRoom(ctx, made.User); err != nil {
			return err
		}
		row := &tokenRow{
			Hash: made.Hash, UserUID: owner.Meta().UID, User: made.User, Label: made.Label, ExpiresAt: micros(made.ExpiresAt),
			Limit: columnOf(made.Limit), MadeWith: made.MadeWith,
		}
		if err := (tokenTx{t}).putToken(ctx, row); err != nil {
			return err
		}
		token = row.token()
		return nil
	})
	if err == nil && isUsed {
		return catalog.Token{}, catalog.ErrTokenUsed
	}
	return token, err
}

// endUsed reports whether a token is or was there, and ends it.
func (t tokenTx) endUsed(ctx context.Context, id string) (bool, error) {
	err := t.dropWithMade(ctx, id)
	if !errors.Is(err, catalog.ErrNotFound) {
		return err == nil, err
	}
	isBuried, err := t.sql.NewSelect().Model((*deletionRow)(nil)).Where("kind = ? AND name = ?", string(catalog.KindToken), id).Exists(ctx)
	return isBuried, translate("read deleted tokens", err)
}

// checkMaker returns an error if the token that another one is made with has ended.
func (t tokenTx) checkMaker(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	rows, err := t.tokens(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, func(row *tokenRow) bool { return row.token().ID == id && !row.token().Expired(time.Now()) }) {
		return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindToken, Name: id}}
	}
	return nil
}

// makeRoom returns an error if a user cannot have another token. It removes tokens of the user that
// have ended where there would be too many with them.
func (t tokenTx) makeRoom(ctx context.Context, user string) error {
	rows, err := t.tokens(ctx)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(row *tokenRow) bool { return row.User != user })
	if len(rows) < catalog.MaxTokensPerUser {
		return nil
	}
	live := 0
	for _, row := range rows {
		if !row.token().Expired(time.Now()) {
			live++
			continue
		}
		if err := t.dropToken(ctx, row); err != nil {
			return err
		}
	}
	if live >= catalog.MaxTokensPerUser {
		return fielderr.New("user", "has %d API tokens already; delete those that are not in use any more", live)
	}
	return nil
}

// tokens returns all tokens. Edits of tokens are rare, and a user has few, so they may read all.
func (t tokenTx) tokens(ctx context.Context) ([]*tokenRow, error) {
	var rows []*tokenRow
	err := withUser(t.sql.NewSelect().Model(&rows)).Scan(ctx)
	return rows, translate("read tokens", err)
}

// ListTokens implements catalog.People.
func (k *Tokens) ListTokens(ctx context.Context, user string) ([]catalog.Token, error) {
	query := withUser(k.store.db.NewSelect()).Order("u.name", "t.label", "t.hash")
	if user != "" {
		query = query.Where("u.name = ?", user)
	}
	var tokens []catalog.Token
	err := list(ctx, query, &tokens, (*tokenRow).token)
	return tokens, translate("list tokens", err)
}

// DeleteToken implements catalog.People.
func (k *Tokens) DeleteToken(ctx context.Context, id string) error {
	return k.store.edit(ctx, func(ctx context.Context, t *tx) error {
		return tokenTx{t}.dropWithMade(ctx, id)
	})
}

// dropWithMade ends a token, and the tokens that were made with it. Error: *catalog.NotFoundError.
func (t tokenTx) dropWithMade(ctx context.Context, id string) error {
	rows, err := t.tokens(ctx)
	if err != nil {
		return err
	}
	all, byID := make([]catalog.Token, len(rows)), map[string]*tokenRow{}
	for i, row := range rows {
		all[i] = row.token()
		byID[all[i].ID] = row
	}
	if byID[id] == nil {
		return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindToken, Name: id}}
	}
	ended := []string{id}
	for _, made := range catalog.MadeWith(id, all) {
		ended = append(ended, made.ID)
	}
	for _, each := range ended {
		if err := t.dropToken(ctx, byID[each]); err != nil {
			return err
		}
	}
	return nil
}
