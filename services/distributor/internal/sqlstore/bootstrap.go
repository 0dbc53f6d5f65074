// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// bootstrapKept is how long a bootstrap token that has ended stays listed.
const bootstrapKept = 30 * 24 * time.Hour

// bootstrapRow is a stored bootstrap token.
type bootstrapRow struct {
	bun.BaseModel `bun:"table:bootstrap_tokens,alias:bt"`
	Hash          []byte                    `bun:"hash,pk"`
	ID            string                    `bun:"id"`
	Project       string                    `bun:"project"`
	NamePrefix    string                    `bun:"name_prefix"`
	Labels        column[map[string]string] `bun:"labels"`
	Description   string                    `bun:"description"`
	MaxUses       int64                     `bun:"max_uses"`
	Uses          int64                     `bun:"uses"`
	CreatedAt     int64                     `bun:"created_at"`
	ExpiresAt     int64                     `bun:"expires_at"`
	LastUsedAt    int64                     `bun:"last_used_at"`
	LastCluster   string                    `bun:"last_cluster"`
	CreatedBy     string                    `bun:"created_by"`
	CreatedByUID  string                    `bun:"created_by_uid"`
	MadeWith      string                    `bun:"made_with"`
}

func (r *bootstrapRow) token() catalog.BootstrapToken {
	return catalog.BootstrapToken{
		ID: r.ID, Project: r.Project, NamePrefix: r.NamePrefix, Labels: r.Labels.v, Description: r.Description,
		MaxUses: int(r.MaxUses), Uses: int(r.Uses), CreatedAt: timeOf(r.CreatedAt), ExpiresAt: timeOf(r.ExpiresAt),
		LastUsedAt: timeOf(r.LastUsedAt), LastCluster: r.LastCluster,
		CreatedBy: r.CreatedBy, CreatedByUID: r.CreatedByUID, MadeWith: r.MadeWith,
	}
}

// bootstrapClusterRow remembers which cluster a token made for a Kubernetes cluster.
type bootstrapClusterRow struct {
	bun.BaseModel `bun:"table:bootstrap_clusters,alias:bc"`
	TokenID       string `bun:"token_id,pk"`
	KubernetesUID string `bun:"kubernetes_uid,pk"`
	ClusterUID    string `bun:"cluster_uid"`
}

// Bootstraps keeps the bootstrap tokens of a store's database. It is safe for concurrent use.
type Bootstraps struct{ store *Store }

var _ catalog.Bootstraps = Bootstraps{}

// BootstrapsOf returns the bootstrap tokens in a store's database.
func BootstrapsOf(s *Store) Bootstraps { return Bootstraps{store: s} }

// CreateBootstrapToken implements catalog.Bootstraps.
func (b Bootstraps) CreateBootstrapToken(ctx context.Context, token catalog.BootstrapToken, hash []byte) (catalog.BootstrapToken, error) {
	origin := catalog.OriginOf(ctx)
	row := &bootstrapRow{
		Hash: hash, ID: admission.TokenID(hash), Project: token.Project, NamePrefix: token.NamePrefix, Labels: columnOf(token.Labels),
		Description: token.Description, MaxUses: int64(token.MaxUses), CreatedAt: micros(time.Now()), ExpiresAt: micros(token.ExpiresAt),
		CreatedBy: origin.By(), CreatedByUID: origin.SubjectUID, MadeWith: token.MadeWith,
	}
	err := b.store.edit(ctx, func(ctx context.Context, t *tx) error {
		t.dirty = true
		if err := (tokenTx{t}).checkMaker(ctx, token.MadeWith); err != nil {
			return err
		}
		ended := micros(time.Now().Add(-bootstrapKept))
		if _, err := t.sql.NewDelete().Model((*bootstrapRow)(nil)).Where("expires_at < ?", ended).Exec(ctx); err != nil {
			return translate("sweep bootstrap tokens", err)
		}
		live, err := t.sql.NewSelect().Model((*bootstrapRow)(nil)).Where("expires_at >= ?", micros(time.Now())).Count(ctx)
		if err != nil {
			return translate("count bootstrap tokens", err)
		}
		if live >= catalog.MaxBootstrapTokens {
			return fielderr.New("project", "the hub has %d bootstrap tokens already; revoke those that are not in use any more", live)
		}
		t.note(catalog.Change{Verb: catalog.VerbCreate, Kind: catalog.RecordBootstrapToken, Name: row.ID, After: row.token()})
		_, err = t.sql.NewInsert().Model(row).Exec(ctx)
		return translate("write bootstrap token", err)
	})
	return row.token(), err
}

// BootstrapTokens implements catalog.Bootstraps.
func (b Bootstraps) BootstrapTokens(ctx context.Context) (tokens []catalog.BootstrapToken, err error) {
	err = list(ctx, b.store.db.NewSelect().Order("project", "name_prefix", "id"), &tokens, (*bootstrapRow).token)
	return tokens, translate("list bootstrap tokens", err)
}

// RevokeBootstrapToken implements catalog.Bootstraps.
func (b Bootstraps) RevokeBootstrapToken(ctx context.Context, id string) error {
	return b.store.edit(ctx, func(ctx context.Context, t *tx) error {
		n, err := bootstrapTx{t}.end(ctx, "id", id)
		if err == nil && n == 0 {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.RecordBootstrapToken, Name: id}}
		}
		return err
	})
}

// bootstrapTx ends bootstrap tokens within a transaction.
type bootstrapTx struct{ *tx }

// end deletes the bootstrap tokens with that value in a column, and returns how many there were. An
// empty value belongs to no token.
func (t bootstrapTx) end(ctx context.Context, column, value string) (int, error) {
	if value == "" {
		return 0, nil
	}
	var rows []*bootstrapRow
	if err := t.sql.NewSelect().Model(&rows).Where("? = ?", bun.Ident(column), value).Order("id").Scan(ctx); err != nil {
		return 0, translate("read bootstrap tokens", err)
	}
	for _, row := range rows {
		t.dirty = true
		t.note(catalog.Change{Verb: catalog.VerbRevoke, Kind: catalog.RecordBootstrapToken, Name: row.ID, Before: row.token()})
		if _, err := t.sql.NewDelete().Model(row).WherePK().Exec(ctx); err != nil {
			return 0, translate("delete bootstrap token", err)
		}
	}
	return len(rows), nil
}

// endBootstrapsBy deletes the bootstrap tokens that a deleted user has made.
func endBootstrapsBy(ctx context.Context, t *tx, user *catalog.Metadata) error {
	_, err := bootstrapTx{t}.end(ctx, "created_by_uid", user.UID)
	return err
}

// endBootstrapsIn deletes the bootstrap tokens that make clusters in a deleted project.
func endBootstrapsIn(ctx context.Context, t *tx, project *catalog.Metadata) error {
	_, err := bootstrapTx{t}.end(ctx, "project", project.Name)
	return err
}

// Bootstrap implements catalog.Bootstraps. Edits are serialised, so of several agents with a token's
// last use one has it.
func (b Bootstraps) Bootstrap(
	ctx context.Context, n catalog.Newcomer,
	admit func(ctx context.Context, tx catalog.Tx, token catalog.BootstrapToken, known *catalog.Cluster) (*catalog.Cluster, error),
) (enrolled *catalog.Cluster, err error) {
	// The records of the edit name the token.
	origin, id := catalog.OriginOf(ctx), admission.TokenID(n.Hash)
	origin.TokenID = admission.BootstrapCredential(id)
	origin.Credential, origin.Reason = origin.TokenID, "bootstrap token "+id
	err = b.store.edit(catalog.WithOrigin(ctx, origin), func(ctx context.Context, t *tx) error {
		token := new(bootstrapRow)
		err := t.sql.NewSelect().Model(token).Where("hash = ?", n.Hash).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return catalog.ErrJoinTokenInvalid
		}
		if err != nil {
			return translate("read bootstrap token", err)
		}
		known, err := bootstrapped(ctx, t.sql, token.ID, n.KubernetesUID)
		if err != nil {
			return err
		}
		admitted, err := admit(ctx, t, token.token(), known)
		if err != nil {
			return err
		}
		if enrolled = admitted; admitted == known {
			return nil
		}
		enrolled, err = token.use(ctx, t, n, admitted)
		return translate("use bootstrap token", err)
	})
	if err != nil {
		return nil, err
	}
	return enrolled, nil
}

// bootstrapped returns the cluster that a token made for a Kubernetes cluster, or nil.
func bootstrapped(ctx context.Context, db bun.IDB, token, kubernetesUID string) (*catalog.Cluster, error) {
	found, err := storedClusters.list(ctx, db.NewSelect().
		Where("uid = (SELECT cluster_uid FROM bootstrap_clusters WHERE token_id = ? AND kubernetes_uid = ?)", token, kubernetesUID))
	if err != nil || len(found) == 0 {
		return nil, translate("read cluster", err)
	}
	return found[0], nil
}

// use counts a use, remembers the Kubernetes cluster, and enrols the agent for the new cluster, which
// it returns.
func (r *bootstrapRow) use(ctx context.Context, t *tx, n catalog.Newcomer, made *catalog.Cluster) (*catalog.Cluster, error) {
	r.Uses++
	r.LastUsedAt, r.LastCluster = micros(time.Now()), made.Name
	if _, err := t.sql.NewUpdate().Model(r).Column("uses", "last_used_at", "last_cluster").WherePK().Exec(ctx); err != nil {
		return nil, err
	}
	member := &bootstrapClusterRow{TokenID: r.ID, KubernetesUID: n.KubernetesUID, ClusterUID: made.UID}
	if _, err := t.sql.NewInsert().Model(member).Exec(ctx); err != nil {
		return nil, err
	}
	row, err := storedClusters.find(ctx, t.sql, "uid", made.UID)
	if err != nil {
		return nil, err
	}
	if err := (agentTx{t}).setKey(ctx, row, n.Key, n.AgentVersion); err != nil {
		return nil, err
	}
	return row.cluster(), nil
}
