// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxSessions bounds the sessions of one person. The oldest end.
	maxSessions = 64
	// maxSuccessors bounds the tokens of one session. No honest holder comes near it.
	maxSuccessors = 10_000
)

var _ session.Store = (*SignIns)(nil)

// SignIns keeps how people sign in: their sessions, and the secrets of identity providers. It is
// safe for concurrent use.
type SignIns struct{ store *Store }

// SignIns returns the part of the store about how people sign in.
func (s *Store) SignIns() *SignIns { return &SignIns{s} }

type sessionRow struct {
	bun.BaseModel `bun:"table:sessions,alias:se"`
	ID            string           `bun:"id,pk"`
	Person        string           `bun:"person"`
	Groups        column[[]string] `bun:"groups"`
	ProviderUID   string           `bun:"provider_uid"`
	Provider      string           `bun:"provider,scanonly"`
	Subject       string           `bun:"subject"`
	Client        string           `bun:"client"`
	Challenge     []byte           `bun:"challenge"`
	Refresh       []byte           `bun:"refresh"` // sealed and bound to the id
	Pending       bool             `bun:"pending"`
	CreatedAt     int64            `bun:"created_at"`
	LastUsedAt    int64            `bun:"last_used_at"`
	ProofEndsAt   int64            `bun:"proof_ends_at"`
	EndsAt        int64            `bun:"ends_at"`
	RenewAt       int64            `bun:"renew_at"`
	RenewingUntil int64            `bun:"renewing_until"`
	Revision      int64            `bun:"revision"`
}

var refreshTokens = sealedColumn{"sessions", "id", "refresh", purposeRefresh, placeOfKey}

// sessionTokenRow is a token, or a proof, that a session has or had. The one without a successor is
// the current one.
type sessionTokenRow struct {
	bun.BaseModel `bun:"table:session_tokens,alias:st"`
	Hash          []byte `bun:"hash,pk"`
	SessionID     string `bun:"session_id"`
	Successor     []byte `bun:"successor"`
}

func (r *sessionRow) session() catalog.Session {
	s := catalog.Session{
		ID: r.ID, Person: r.Person, Groups: r.Groups.v, Provider: r.Provider, ProviderUID: r.ProviderUID, Subject: r.Subject,
		Client: catalog.SessionClient(r.Client), CreatedAt: timeOf(r.CreatedAt), LastUsedAt: timeOf(r.LastUsedAt), EndsAt: timeOf(r.EndsAt),
		Pending: r.Pending,
	}
	if r.Pending {
		s.EndsAt = timeOf(r.ProofEndsAt)
	}
	return s
}

// unused returns the session without its last use, which is not a change of the catalog.
func (r *sessionRow) unused() catalog.Session {
	r.LastUsedAt = 0
	return r.session()
}

func (r *sessionRow) held() session.Held {
	return session.Held{Session: r.session(), RenewAt: timeOf(r.RenewAt)}
}

// stored returns the session with one of its tokens. successor is the successor of the token, or nil.
func (r *sessionRow) stored(token, successor *sessionTokenRow) session.Stored {
	return session.Stored{
		Held: r.held(), Challenge: r.Challenge, Successor: token.Successor, IsPassed: successor != nil && successor.Successor != nil,
	}
}

// withProvider adds the names of the providers that sessions began with.
func withProvider(query *bun.SelectQuery) *bun.SelectQuery {
	return query.ColumnExpr("se.*, p.name AS provider").Join("JOIN identity_providers AS p ON p.uid = se.provider_uid")
}

// CreateSession implements session.Store.
func (s *SignIns) CreateSession(ctx context.Context, n session.New) error {
	row := &sessionRow{
		ID: n.ID, Person: n.Person, Groups: columnOf(n.Groups), ProviderUID: n.ProviderUID, Subject: n.Subject, Client: string(n.Client),
		Challenge: n.Challenge, Pending: n.Pending, CreatedAt: micros(n.CreatedAt), ProofEndsAt: micros(n.ProofEndsAt),
		EndsAt: micros(n.EndsAt), RenewAt: micros(n.RenewAt),
	}
	return s.store.edit(session.ByPerson(ctx, n.Session), func(ctx context.Context, t *tx) error {
		t.dirty = true
		row.Revision = t.revision
		if err := s.sealRefresh(row, n.Refresh); err != nil { // in the edit, which has loaded the newest key
			return err
		}
		if err := (sessionTx{t}).sweep(ctx, n); err != nil {
			return err
		}
		known, err := t.sql.NewSelect().Model((*sessionTokenRow)(nil)).Where("hash = ?", n.Proof).Exists(ctx)
		if err != nil {
			return translate("read session's token", err)
		}
		if known {
			return session.ErrProof
		}
		if _, err := t.sql.NewInsert().Model(row).Exec(ctx); err != nil {
			return translate("write session", err)
		}
		t.note(catalog.Change{Verb: catalog.VerbCreate, Kind: string(catalog.KindSession), Name: n.ID, After: n.Session})
		_, err = t.sql.NewInsert().Model(&sessionTokenRow{Hash: n.Proof, SessionID: n.ID}).Exec(ctx)
		return translate("write session's token", err)
	})
}

// sessionTx ends sessions within a transaction.
type sessionTx struct{ *tx }

// sweep drops sessions that have ended, and a person's sessions above the bound.
func (t sessionTx) sweep(ctx context.Context, n session.New) error {
	at := micros(n.CreatedAt)
	_, err := t.sql.NewDelete().Model((*sessionRow)(nil)).Where("ends_at <= ? OR pending AND proof_ends_at <= ?", at, at).Exec(ctx)
	if err != nil {
		return translate("sweep sessions", err)
	}
	var rows []*sessionRow
	err = t.sql.NewSelect().Model(&rows).Column("id").Where("person = ?", n.Person).Order("created_at DESC", "id").Offset(maxSessions - 1).
		Limit(maxSessions).Scan(ctx)
	if err != nil {
		return translate("read sessions", err)
	}
	return t.drop(ctx, rows)
}

// drop ends sessions before their time, which their records show.
func (t sessionTx) drop(ctx context.Context, rows []*sessionRow) error {
	for _, row := range rows {
		t.dirty = true
		t.note(catalog.Change{Verb: catalog.VerbDelete, Kind: string(catalog.KindSession), Name: row.ID})
		if _, err := t.sql.NewDelete().Model(row).WherePK().Exec(ctx); err != nil {
			return translate("delete session", err)
		}
		if err := bury(ctx, t.tx, catalog.Key{Kind: catalog.KindSession, Name: row.ID}, row.ID); err != nil {
			return err
		}
	}
	return nil
}

// RedeemProof implements session.Store.
func (s *SignIns) RedeemProof(ctx context.Context, r session.Redemption) (held session.Held, err error) {
	var verdict session.Verdict
	err = s.store.edit(ctx, func(ctx context.Context, t *tx) error {
		token, row, err := sessionByToken(ctx, t.sql, r.Proof)
		if errors.Is(err, sql.ErrNoRows) {
			return session.ErrProof
		}
		if err != nil {
			return translate("read session", err)
		}
		verdict = row.stored(token, nil).Redeem(r)
		switch {
		case verdict.Ends:
			return sessionTx{t}.drop(ctx, []*sessionRow{row})
		case verdict.Succeeds:
			row.Pending, row.Revision = false, t.revision
			t.dirty = true
			if _, err := t.sql.NewUpdate().Model(row).Column("pending", "revision").WherePK().Exec(ctx); err != nil {
				return translate("write session", err)
			}
			t.note(catalog.Change{Verb: catalog.VerbUpdate, Kind: string(catalog.KindSession), Name: row.ID}) // from where it is held
			if err := succeed(ctx, t.sql, token, r.First); err != nil {
				return err
			}
		}
		held = row.held()
		return nil
	})
	switch {
	case err != nil:
		return session.Held{}, err
	case verdict.Err != nil:
		return session.Held{}, verdict.Err
	}
	return held, nil
}

// sessionByToken returns a token and its session.
func sessionByToken(ctx context.Context, db bun.IDB, hash []byte) (*sessionTokenRow, *sessionRow, error) {
	token, row := new(sessionTokenRow), new(sessionRow)
	if err := db.NewSelect().Model(token).Where("hash = ?", hash).Scan(ctx); err != nil {
		return nil, nil, err
	}
	return token, row, withProvider(db.NewSelect().Model(row)).Where("se.id = ?", token.SessionID).Scan(ctx)
}

// succeed replaces a token by its successor. A successor that is a token already is refused.
func succeed(ctx context.Context, db bun.IDB, token *sessionTokenRow, successor []byte) error {
	count, err := db.NewSelect().Model((*sessionTokenRow)(nil)).Where("session_id = ?", token.SessionID).Count(ctx)
	if err != nil {
		return translate("count session's tokens", err)
	}
	known, err := db.NewSelect().Model((*sessionTokenRow)(nil)).Where("hash = ?", successor).Exists(ctx)
	switch {
	case err != nil:
		return translate("read session's token", err)
	case known, count >= maxSuccessors:
		return session.ErrEnded
	}
	token.Successor = successor
	if _, err := db.NewUpdate().Model(token).Column("successor").WherePK().Exec(ctx); err != nil {
		return translate("write session's token", err)
	}
	_, err = db.NewInsert().Model(&sessionTokenRow{Hash: successor, SessionID: token.SessionID}).Exec(ctx)
	return translate("write session's token", err)
}

// UseToken implements session.Store. It takes no revision: which token is the current one is not a
// change of the catalog. The session's row is the lock of its tokens.
func (s *SignIns) UseToken(ctx context.Context, u session.Use) (held session.Held, err error) {
	var verdict session.Verdict
	err = s.store.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error {
		row, token := new(sessionRow), new(sessionTokenRow)
		lock := sqlTx.NewUpdate().Model((*sessionRow)(nil)).Set("renewing_until = renewing_until").Where("id = ?", u.ID)
		if _, err := lock.Exec(ctx); err != nil {
			return err
		}
		if err := withProvider(sqlTx.NewSelect().Model(row)).Where("se.id = ?", u.ID).Scan(ctx); err != nil {
			return err
		}
		if err := sqlTx.NewSelect().Model(token).Where("hash = ? AND session_id = ?", u.Token, u.ID).Scan(ctx); err != nil {
			return err
		}
		var successor *sessionTokenRow
		if token.Successor != nil {
			successor = new(sessionTokenRow)
			if err := sqlTx.NewSelect().Model(successor).Where("hash = ?", token.Successor).Scan(ctx); err != nil {
				return err
			}
		}
		verdict = row.stored(token, successor).Use(u)
		if verdict.Succeeds {
			if err := succeed(ctx, sqlTx, token, u.Next); err != nil {
				return err
			}
		}
		if verdict.Touches {
			row.LastUsedAt = micros(u.At)
			if _, err := sqlTx.NewUpdate().Model(row).Column("last_used_at").WherePK().Exec(ctx); err != nil {
				return err
			}
		}
		held = row.held()
		return nil
	})
	switch {
	case errors.Is(err, sql.ErrNoRows), errors.Is(err, session.ErrEnded):
		return session.Held{}, session.ErrEnded
	case err != nil:
		return session.Held{}, translate("use session", err)
	case verdict.Ends:
		if _, err := s.EndSessions(ctx, u.ID, ""); err != nil {
			return session.Held{}, err
		}
	}
	if verdict.Err != nil {
		return session.Held{}, verdict.Err
	}
	return held, nil
}

// ClaimRenewal implements session.Store.
func (s *SignIns) ClaimRenewal(ctx context.Context, id string, at, until time.Time) (secret.Text, bool, error) {
	row := new(sessionRow)
	err := s.store.db.NewUpdate().Model(row).Set("renewing_until = ?", micros(until)).Where("id = ? AND renewing_until <= ?", id, micros(at)).
		Returning("id").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, translate("claim renewal of session", err)
	}
	var plain []byte
	err = s.store.opening(ctx, func(ctx context.Context) error { // reads again what was sealed again meanwhile
		if err := s.store.db.NewSelect().Model(row).Column("refresh").Where("id = ?", id).Scan(ctx); err != nil {
			return translate("read refresh token of session", err)
		}
		if len(row.Refresh) == 0 {
			return sql.ErrNoRows
		}
		plain, err = refreshTokens.open(s.store.keys, id, row.Refresh)
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows): // the session has no refresh token, or has just ended
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("open refresh token of session %s: %w", id, err)
	}
	return secret.Text(plain), true, nil
}

// SaveRenewal implements session.Store.
func (s *SignIns) SaveRenewal(ctx context.Context, id string, groups []string, refresh secret.Text, renewAt time.Time) error {
	return s.store.edit(ctx, func(ctx context.Context, t *tx) error {
		row := new(sessionRow)
		err := t.sql.NewSelect().Model(row).Where("id = ?", id).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translate("read session", err)
		}
		t.dirty = true
		if !slices.Equal(row.Groups.v, groups) {
			before := row.unused()
			row.Groups, row.Revision = columnOf(groups), t.revision
			t.note(catalog.Change{Verb: catalog.VerbUpdate, Kind: string(catalog.KindSession), Name: id, Before: before, After: row.unused()})
		}
		row.RenewAt, row.RenewingUntil = micros(renewAt), 0
		if refresh != "" {
			if err := s.sealRefresh(row, refresh); err != nil {
				return err
			}
		}
		_, err = t.sql.NewUpdate().Model(row).Column("groups", "revision", "renew_at", "renewing_until", "refresh").WherePK().Exec(ctx)
		return translate("write renewal of session", err)
	})
}

func (s *SignIns) sealRefresh(row *sessionRow, refresh secret.Text) error {
	if refresh == "" {
		row.Refresh = nil
		return nil
	}
	sealed, err := refreshTokens.seal(s.store.keys, row.ID, []byte(refresh.Reveal()))
	row.Refresh = sealed
	return err
}

// EndSessions implements session.Store.
func (s *SignIns) EndSessions(ctx context.Context, id, person string) (int, error) {
	ended := 0
	err := s.store.edit(ctx, func(ctx context.Context, t *tx) error {
		var rows []*sessionRow
		query := t.sql.NewSelect().Model(&rows).Column("id")
		if id != "" {
			query = query.Where("id = ?", id)
		} else {
			query = query.Where("person = ?", person)
		}
		if err := query.Scan(ctx); err != nil {
			return translate("read sessions", err)
		}
		ended = len(rows)
		return sessionTx{t}.drop(ctx, rows)
	})
	return ended, err
}

// ListSessions implements session.Store.
func (s *SignIns) ListSessions(ctx context.Context, person string) ([]catalog.Session, error) {
	query := withProvider(s.store.db.NewSelect()).Where("NOT pending AND ends_at > ?", micros(time.Now())).Order("se.person", "se.created_at", "se.id")
	if person != "" {
		query = query.Where("se.person = ?", person)
	}
	var sessions []catalog.Session
	err := list(ctx, query, &sessions, (*sessionRow).session)
	return sessions, translate("list sessions", err)
}

// ProviderSecret returns the secret of the client at the identity provider with that uid; empty for
// a public client. Error: *catalog.NotFoundError.
func (s *SignIns) ProviderSecret(ctx context.Context, uid string) (secret.Text, error) {
	p, err := storedProviders.byUID(ctx, s.store, uid)
	if err != nil {
		return "", err
	}
	return p.Spec.ClientSecret, nil
}
