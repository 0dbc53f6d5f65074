// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxJoinTokens bounds the join tokens that JoinTokens returns. Join tokens expire after a day.
const maxJoinTokens = 100_000

var _ catalog.Enrolments = (*Enrolments)(nil)

// Enrolments keeps the join tokens and the keys of agents. It is safe for concurrent use.
type Enrolments struct{ store *Store }

// Enrolments returns the part of the store about how agents join.
func (s *Store) Enrolments() *Enrolments { return &Enrolments{s} }

type joinTokenRow struct {
	bun.BaseModel `bun:"table:join_tokens,alias:jt"`
	Hash          []byte `bun:"hash,pk"`
	ClusterUID    string `bun:"cluster_uid"`
	ExpiresAt     int64  `bun:"expires_at"`
	UsedAt        int64  `bun:"used_at"`
	// ClusterKey is the key of the cluster's agent.
	ClusterKey []byte `bun:"public_key,scanonly"`
}

func (r *joinTokenRow) state() catalog.JoinToken {
	return catalog.JoinToken{Hash: r.Hash, Used: r.UsedAt != 0, ClusterKey: r.ClusterKey}
}

// CreateJoinToken implements catalog.Enrolments. Tokens that ended a day ago are swept on the way.
func (e *Enrolments) CreateJoinToken(ctx context.Context, cluster string, hash []byte, expires time.Time) error {
	change := catalog.Change{Verb: catalog.VerbCreate, Kind: catalog.RecordJoinToken, Name: cluster, Cluster: cluster}
	return writeRecorded(ctx, e.store, change, func(ctx context.Context, db bun.IDB) error {
		old := micros(time.Now().Add(-24 * time.Hour))
		if _, err := db.NewDelete().Model((*joinTokenRow)(nil)).Where("expires_at < ?", old).Exec(ctx); err != nil {
			return translate("sweep join tokens", err)
		}
		result, err := db.NewRaw("INSERT INTO join_tokens (hash, cluster_uid, expires_at) SELECT ?, uid, ? FROM clusters WHERE name = ?",
			hash, micros(expires), cluster).Exec(ctx)
		if err != nil {
			return translate("write join token", err)
		}
		return oneCluster(result, cluster)
	})
}

// JoinTokens implements catalog.Enrolments.
func (e *Enrolments) JoinTokens(ctx context.Context) (tokens []catalog.JoinToken, err error) {
	query := e.store.db.NewSelect().ColumnExpr("jt.hash, jt.used_at, c.public_key").Join("JOIN clusters AS c ON c.uid = jt.cluster_uid").
		Where("jt.expires_at >= ? OR jt.used_at <> 0", micros(time.Now())).OrderExpr("jt.expires_at DESC").Limit(maxJoinTokens)
	if err = list(ctx, query, &tokens, (*joinTokenRow).state); err != nil {
		return nil, translate("list join tokens", err)
	}
	var hashes [][]byte
	query = e.store.db.NewSelect().Table("bootstrap_tokens").Column("hash").Where("expires_at >= ?", micros(time.Now())).Limit(catalog.MaxBootstrapTokens)
	err = query.Scan(ctx, &hashes)
	for _, hash := range hashes {
		tokens = append(tokens, catalog.JoinToken{Hash: hash, IsBootstrap: true})
	}
	return tokens, translate("list bootstrap tokens", err)
}

// oneCluster turns "no row" into the error that names the missing cluster.
func oneCluster(result sql.Result, cluster string) error {
	n, err := result.RowsAffected()
	if err != nil {
		return translate("count rows", err)
	}
	if n == 0 {
		return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindCluster, Name: cluster}}
	}
	return nil
}

// Enrol implements catalog.Enrolments.
func (e *Enrolments) Enrol(ctx context.Context, hash []byte, key ed25519.PublicKey, agentVersion string) (*catalog.Cluster, error) {
	var cluster *catalog.Cluster
	err := e.store.edit(ctx, func(ctx context.Context, t *tx) error {
		token, row, err := joinTokenBy(ctx, t.sql, hash)
		if err != nil {
			return err
		}
		switch {
		case token.UsedAt != 0 && subtle.ConstantTimeCompare(row.PublicKey, key) == 1:
			// The agent did not get the first answer.
		case token.UsedAt != 0 || timeOf(token.ExpiresAt).Before(time.Now()):
			return catalog.ErrJoinTokenInvalid
		default:
			if err := (agentTx{t}).enrol(ctx, token, row, key, agentVersion); err != nil {
				return translate("write key", err)
			}
		}
		cluster = row.cluster()
		return nil
	})
	return cluster, err
}

// joinTokenBy reads a token and its cluster. Edits are serialised, so no other edit uses the token in
// the meantime.
func joinTokenBy(ctx context.Context, db bun.IDB, hash []byte) (*joinTokenRow, *clusterRow, error) {
	token := new(joinTokenRow)
	err := db.NewSelect().Model(token).Where("hash = ?", hash).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, catalog.ErrJoinTokenInvalid
	}
	if err != nil {
		return nil, nil, translate("read join token", err)
	}
	row, err := storedClusters.find(ctx, db, "uid", token.ClusterUID)
	return token, row, translate("read cluster", err)
}

// agentTx enrols agents within a transaction.
type agentTx struct{ *tx }

// enrol marks a join token as used, and sets the key of the agent that used it.
func (t agentTx) enrol(ctx context.Context, token *joinTokenRow, row *clusterRow, key ed25519.PublicKey, agentVersion string) error {
	token.UsedAt = micros(time.Now())
	if _, err := t.sql.NewUpdate().Model(token).Column("used_at").WherePK().Exec(ctx); err != nil {
		return err
	}
	return t.setKey(ctx, row, key, agentVersion)
}

// setKey sets a key as the key of the cluster's agent.
func (t agentTx) setKey(ctx context.Context, row *clusterRow, key ed25519.PublicKey, agentVersion string) error {
	t.dirty = true
	t.note(catalog.Change{
		Verb: catalog.VerbEnrol, Kind: string(catalog.KindCluster), Name: row.Name, UID: row.UID, Cluster: row.Name,
	})
	last := row.Report.v
	// The facts that conditions of global services read stay until the new agent reports, so that no
	// service is removed meanwhile.
	facts := catalog.ClusterReport{
		AgentVersion: cmp.Or(last.AgentVersion, agentVersion), KubernetesVersion: last.KubernetesVersion, Capabilities: last.Capabilities, Provider: last.Provider,
	}
	row.PublicKey, row.Report, row.Revision = key, columnOf(facts), t.revision
	row.KeyGeneration++
	// Another agent begins: what the last one's process reported is no longer compared with.
	row.Instance, row.Sequence = "", 0
	_, err := t.sql.NewUpdate().Model(row).Column("public_key", "report", "revision", "key_generation", "instance", "sequence").WherePK().Exec(ctx)
	return err
}

// Revoke implements catalog.Enrolments.
func (e *Enrolments) Revoke(ctx context.Context, cluster string) error {
	return e.store.edit(ctx, func(ctx context.Context, t *tx) error {
		t.dirty = true
		t.note(catalog.Change{Verb: catalog.VerbRevoke, Kind: string(catalog.KindCluster), Name: cluster, Cluster: cluster})
		result, err := t.sql.NewRaw("UPDATE clusters SET public_key = NULL, key_generation = key_generation + 1, revision = ? WHERE name = ?",
			t.revision, cluster).Exec(ctx)
		if err != nil {
			return translate("revoke key", err)
		}
		if err := oneCluster(result, cluster); err != nil {
			return err
		}
		_, err = t.sql.NewRaw("DELETE FROM join_tokens WHERE cluster_uid = (SELECT uid FROM clusters WHERE name = ?)", cluster).Exec(ctx)
		return translate("delete join tokens", err)
	})
}

// Release implements catalog.Enrolments.
func (e *Enrolments) Release(ctx context.Context, cluster string) error {
	return e.store.edit(ctx, func(ctx context.Context, t *tx) error {
		row, err := storedClusters.find(ctx, t.sql, "name", cluster)
		if errors.Is(err, sql.ErrNoRows) {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindCluster, Name: cluster}}
		}
		if err != nil || row.RemovalsHeldAt == 0 {
			return translate("read cluster", err)
		}
		t.dirty = true
		t.note(catalog.Change{Verb: catalog.VerbRelease, Kind: string(catalog.KindCluster), Name: cluster, UID: row.UID, Cluster: cluster})
		row.RemovalsHeldAt, row.Revision = 0, t.revision
		_, err = t.sql.NewUpdate().Model(row).Column("removals_held_at", "revision").WherePK().Exec(ctx)
		return translate("release cluster", err)
	})
}
