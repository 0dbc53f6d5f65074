// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Each put of this file is a putting: it writes an object of one kind, and what the change means for the configurations
// of services.

// putCluster writes a cluster. References of its services may hold its labels and annotations.
func putCluster(ctx context.Context, t *tx, cluster *catalog.Cluster, _ *clusterRow, upsert func() error) error {
	var last []*clusterRow
	if err := t.sql.NewSelect().Model(&last).Column("uid", "labels", "annotations").Where("uid = ?", cluster.UID).Scan(ctx); err != nil {
		return err
	}
	if err := upsert(); err != nil {
		return err
	}
	isSame := len(last) > 0 && maps.Equal(last[0].Labels.v, cluster.Labels) && maps.Equal(last[0].Annotations.v, cluster.Annotations)
	if len(last) == 0 || isSame {
		return nil
	}
	var affected []string
	if err := t.sql.NewSelect().Table("services").Column("uid").Where("cluster_uid = ?", cluster.UID).Order("uid").Scan(ctx, &affected); err != nil {
		return err
	}
	_, err := settle(ctx, t, affected)
	return err
}

// putProject writes a project. Where its sets have changed it composes the configurations of its
// services again, and where its shares have, the configurations of the users of its sets.
func putProject(ctx context.Context, t *tx, project *catalog.Project, _ *projectRow, upsert func() error) error {
	last, err := storedProjects.list(ctx, t.sql.NewSelect().Where("uid = ?", project.UID))
	if err != nil {
		return err
	}
	if err := upsert(); err != nil {
		return err
	}
	before := catalog.DefaultProject()
	if len(last) > 0 {
		before = last[0]
	}
	var affected []string
	if !slices.Equal(before.Spec.ConfigSets, project.Spec.ConfigSets) || !maps.Equal(before.Labels, project.Labels) {
		err := t.sql.NewSelect().Table("services").Column("uid").Where("project = ?", project.Name).Order("uid").Scan(ctx, &affected)
		if err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(setSharesOf(before), setSharesOf(project)) {
		users, err := usersOfSets(ctx, t.sql, "cu.set_name IN (SELECT name FROM config_sets WHERE project = ?)", project.Name)
		if err != nil {
			return err
		}
		affected = append(affected, users...)
	}
	if !reflect.DeepEqual(before.AnnotationShares(), project.AnnotationShares()) {
		var guests []string
		err := t.sql.NewSelect().Table("services").Column("uid").Where("project <> ?", project.Name).
			Where("cluster_uid IN (SELECT uid FROM clusters WHERE project = ?)", project.Name).Scan(ctx, &guests)
		if err != nil {
			return err
		}
		affected = append(affected, guests...)
	}
	slices.Sort(affected)
	_, err = settle(ctx, t, slices.Compact(affected))
	return err
}

// setSharesOf returns what a project shares of its sets.
func setSharesOf(project *catalog.Project) []catalog.ProjectShare {
	var shares []catalog.ProjectShare
	for _, share := range project.Spec.Shares {
		shares = append(shares, catalog.ProjectShare{Projects: share.Projects, ConfigSets: share.ConfigSets})
	}
	return shares
}

// putSet writes a set, and composes the configurations of its users again.
func putSet(ctx context.Context, t *tx, set *catalog.ConfigSet, row *setRow, upsert func() error) error {
	if config := set.Spec.Config; !config.Empty() && len(config.Secrets) > 0 {
		row.Marks = columnOf(marksOf(t.store.keys, set.UID, config.Secrets))
	}
	if err := upsert(); err != nil {
		return err
	}
	users, err := usersOfSets(ctx, t.sql, "cu.set_name = ?", set.Name)
	if err != nil {
		return err
	}
	_, err = settle(ctx, t, users)
	return err
}

// usersOfSets returns the uids of the services that looked for the selected sets.
func usersOfSets(ctx context.Context, db bun.IDB, where string, args ...any) (uids []string, err error) {
	err = db.NewSelect().TableExpr("config_uses AS cu").ColumnExpr("DISTINCT cu.service_uid").Where(where, args...).
		OrderExpr("cu.service_uid").Scan(ctx, &uids)
	return uids, translate("list services of set", err)
}

// putBackend writes a back end, and decides again what services obtain of it: it may be open to
// others now.
func putBackend(ctx context.Context, t *tx, b *catalog.ConfigBackend, _ *backendRow, upsert func() error) error {
	if err := upsert(); err != nil {
		return err
	}
	_, err := settleReaders(ctx, t, "ce.backend_uid = ?", b.UID)
	return err
}

// putGlobal writes a global service, and which repositories it reads.
func putGlobal(ctx context.Context, t *tx, g *catalog.GlobalService, row *globalRow, upsert func() error) error {
	row.Digests = columnOf(layerDigests(t.store.keys, g))
	if err := upsert(); err != nil {
		return err
	}
	return putSources(ctx, t.sql, "global_service_sources", "global_uid", g.UID, g.Spec.Template.Spec.Sources)
}

// putService writes a service with its secrets and which repositories it reads, and composes its configuration.
func putService(ctx context.Context, t *tx, service *catalog.Service, row *serviceRow, upsert func() error) error {
	err := t.sql.NewSelect().Table("clusters").Column("uid").Where("name = ?", service.Spec.Cluster).Scan(ctx, &row.ClusterUID)
	if err != nil {
		return err
	}
	if err := upsert(); err != nil {
		return err
	}
	if err := putSecrets(ctx, t, service); err != nil {
		return err
	}
	if err := putSources(ctx, t.sql, "service_sources", "service_uid", service.UID, service.Spec.Sources); err != nil {
		return err
	}
	_, err = settle(ctx, t, []string{service.UID})
	return err
}

// serviceWithSecrets returns the service of a row with its secrets.
func serviceWithSecrets(ctx context.Context, t *tx, row *serviceRow) (*catalog.Service, error) {
	service := row.service()
	if service.Spec.Config == nil || len(service.Spec.Config.Secrets) == 0 {
		return service, nil
	}
	sealed := &secretsRow{ServiceUID: service.UID}
	err := t.sql.NewSelect().Model(sealed).WherePK().Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read secrets of service %s: %w", service.Name, err)
	}
	service.Spec.Config.Secrets, err = sealed.open(t.store.keys)
	return service, err
}

// putSecrets stores a service's secrets, or deletes them where there are none any more.
func putSecrets(ctx context.Context, t *tx, service *catalog.Service) error {
	if service.Spec.Config.Empty() || len(service.Spec.Config.Secrets) == 0 {
		_, err := t.sql.NewDelete().Table("service_secrets").Where("service_uid = ?", service.UID).Exec(ctx)
		return err
	}
	sealed, err := serviceSecrets.sealJSON(t.store.keys, service.UID, revealed(service.Spec.Config.Secrets))
	if err != nil {
		return err
	}
	return replace(ctx, t.sql, &secretsRow{ServiceUID: service.UID, Sealed: sealed}, "service_uid", "sealed")
}

// putSources stores which repositories an object reads. The table has a column for the uid of the
// object, and one for the uid of a repository.
func putSources(ctx context.Context, db bun.IDB, table, column, uid string, sources []catalog.Source) error {
	if _, err := db.NewDelete().Table(table).Where("? = ?", bun.Ident(column), uid).Exec(ctx); err != nil {
		return err
	}
	names := make([]string, len(sources))
	for i, source := range sources {
		names[i] = source.Repository
	}
	_, err := db.NewRaw("INSERT INTO ? (?, repository_uid) SELECT ?, uid FROM repositories WHERE name IN (?)",
		bun.Ident(table), bun.Ident(column), uid, bun.List(names)).Exec(ctx)
	return err
}
