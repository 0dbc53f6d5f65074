// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// composing implements compose.VariantStore in a transaction. Its writes are in given.go and
// variants.go.
type composing struct {
	t *tx
	// services are the rows of the last Services, by uid.
	services map[string]*serviceRow
}

var _ compose.VariantStore = (*composing)(nil)

// newComposer returns a composer of what a transaction reads.
func newComposer(t *tx) *compose.Composer { return compose.New(&composing{t: t}, catalog.Now()) }

// settle composes the configurations of services again, and stores what differs.
func settle(ctx context.Context, t *tx, serviceUIDs []string) (isChanged bool, err error) {
	return compose.Settle(ctx, &composing{t: t}, catalog.Now(), serviceUIDs)
}

// settleReaders is settle for everything that refers to the selected entries.
func settleReaders(ctx context.Context, t *tx, where string, args ...any) (isChanged bool, err error) {
	var readers, variants []string
	err = t.sql.NewSelect().TableExpr("config_references AS cr").ColumnExpr("DISTINCT cr.service_uid").
		Join("JOIN config_entries AS ce ON ce.id = cr.entry_id").Where(where, args...).OrderExpr("cr.service_uid").Scan(ctx, &readers)
	if err != nil {
		return false, translate("list services of entry", err)
	}
	err = t.sql.NewSelect().TableExpr("variant_references AS vr").ColumnExpr("DISTINCT vr.variant_id").
		Join("JOIN config_entries AS ce ON ce.id = vr.entry_id").Where(where, args...).OrderExpr("vr.variant_id").Scan(ctx, &variants)
	if err != nil {
		return false, translate("list variants of entry", err)
	}
	isChanged, err = settle(ctx, t, readers)
	if err != nil {
		return false, err
	}
	hasChanged, err := compose.SettleVariants(ctx, &composing{t: t}, catalog.Now(), variants)
	return isChanged || hasChanged, err
}

// Services implements compose.Reader.
func (c *composing) Services(ctx context.Context, uids []string) ([]*compose.Service, error) {
	var rows []*serviceRow
	if err := c.t.sql.NewSelect().Model(&rows).Where("uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return nil, translate("read services", err)
	}
	clusters, err := c.clusters(ctx, rows)
	if err != nil {
		return nil, err
	}
	c.services = make(map[string]*serviceRow, len(rows))
	all, byUID := make([]*compose.Service, len(rows)), make(map[string]*compose.Service, len(rows))
	for i, row := range rows {
		config := row.Config.v
		all[i] = &compose.Service{
			UID: row.UID, Name: row.Name, Cluster: clusters[row.ClusterUID], Sets: row.Spec.v.ConfigSets, Own: config.shown(),
			State: compose.State{Digest: config.Digest, Name: config.Name, Held: config.Held, Problem: config.Problem, Waits: config.Waits},
		}
		c.services[row.UID], byUID[row.UID] = row, all[i]
	}
	if err := c.addSecrets(ctx, byUID); err != nil {
		return nil, err
	}
	return all, c.addGiven(ctx, byUID, uids)
}

// clusters returns the clusters of services by uid.
func (c *composing) clusters(ctx context.Context, services []*serviceRow) (map[string]*catalog.Cluster, error) {
	uids := make([]string, len(services))
	for i, row := range services {
		uids[i] = row.ClusterUID
	}
	slices.Sort(uids)
	var rows []*clusterRow
	err := c.t.sql.NewSelect().Model(&rows).Column("uid", "name", "labels", "annotations").
		Where("uid IN (?)", bun.List(slices.Compact(uids))).Scan(ctx)
	clusters := make(map[string]*catalog.Cluster, len(rows))
	for _, row := range rows {
		clusters[row.UID] = &catalog.Cluster{Metadata: row.metadata()}
	}
	return clusters, translate("read clusters", err)
}

// addSecrets adds the secrets of the services' own documents.
func (c *composing) addSecrets(ctx context.Context, byUID map[string]*compose.Service) error {
	var with []string
	for uid, service := range byUID {
		if service.Own != nil && len(service.Own.Secrets) > 0 {
			with = append(with, uid)
		}
	}
	if len(with) == 0 {
		return nil
	}
	var rows []*secretsRow
	if err := c.t.sql.NewSelect().Model(&rows).Where("service_uid IN (?)", bun.List(with)).Scan(ctx); err != nil {
		return translate("read secrets of services", err)
	}
	if len(rows) != len(with) {
		return errors.New("read secrets of services: some are not there")
	}
	for _, row := range rows {
		secrets, err := row.open(c.t.store.keys)
		if err != nil {
			return err
		}
		byUID[row.ServiceUID].Own.Secrets = secrets
	}
	return nil
}

// addGiven adds what services were given, and the names of the configurations that they are held at.
func (c *composing) addGiven(ctx context.Context, byUID map[string]*compose.Service, uids []string) error {
	var given []*givenRow
	if err := c.t.sql.NewSelect().Model(&given).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return translate("read given values", err)
	}
	var held []*heldGivenRow
	if err := c.t.sql.NewSelect().Model(&held).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return translate("read given values of held configurations", err)
	}
	var admitted []*admissionRow
	err := c.t.sql.NewSelect().Model(&admitted).Column("service_uid", "config").
		Where("service_uid IN (?)", bun.List(uids)).Where("config <> ''").Scan(ctx)
	if err != nil {
		return translate("read admissions", err)
	}
	for _, row := range given {
		if service := byUID[row.ServiceUID]; service != nil {
			if service.Given, err = openValues(c.t.store.keys, givenValues, row.ServiceUID, row.Sealed); err != nil {
				return err
			}
		}
	}
	for _, row := range held {
		if service := byUID[row.ServiceUID]; service != nil {
			if service.HeldGiven, err = openValues(c.t.store.keys, heldGivenValues, row.ServiceUID, row.Sealed); err != nil {
				return err
			}
		}
	}
	for _, row := range admitted {
		if service := byUID[row.ServiceUID]; service != nil {
			service.HeldName = row.Config
		}
	}
	return nil
}

// Project implements compose.Reader.
func (c *composing) Project(ctx context.Context, name string) (*catalog.Project, error) {
	row, err := storedProjects.find(ctx, c.t.sql, "name", name)
	if errors.Is(err, sql.ErrNoRows) && name == objectname.Default {
		return catalog.DefaultProject(), nil
	}
	if err != nil {
		return nil, translate("read project", err)
	}
	return storedProjects.object(row), nil
}

// Set implements compose.Reader.
func (c *composing) Set(ctx context.Context, path string) (*catalog.ConfigSet, error) {
	row, err := storedSets.find(ctx, c.t.sql, "name", path)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, translate("read set", err)
	}
	set, err := storedSets.opened(c.t.store.keys, row)
	return set, translate("read set", err)
}

// Backends implements compose.Reader.
func (c *composing) Backends(ctx context.Context) ([]*catalog.ConfigBackend, error) {
	all, err := storedBackends.list(ctx, c.t.sql.NewSelect())
	return all, translate("read configuration back ends", err)
}

// Entries implements compose.Reader.
func (c *composing) Entries(ctx context.Context, keys []compose.EntryKey) (map[compose.EntryKey]compose.Entry, error) {
	found := make(map[compose.EntryKey]compose.Entry, len(keys))
	for some := range slices.Chunk(keys, maxKeys) {
		ids := make([]string, len(some))
		for i, key := range some {
			ids[i] = idOf(key)
		}
		var rows []*entryRow
		if err := c.t.sql.NewSelect().Model(&rows).Where("id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
			return nil, translate("read entries", err)
		}
		for _, row := range rows {
			state, err := stateOf(c.t.store.keys, row)
			if err != nil {
				return nil, err
			}
			key := compose.EntryKey{BackendUID: row.BackendUID, Path: row.Path}
			found[key] = compose.Entry{State: state, Version: row.Version, DueAt: timeOf(row.DueAt)}
		}
	}
	return found, nil
}

// Held implements compose.Reader.
func (c *composing) Held(ctx context.Context, names []string) (map[string]*compose.Held, error) {
	return heldConfigs(ctx, c.t.sql, c.t.store.keys, names)
}

// Digest implements compose.Reader.
func (c *composing) Digest(content []byte) string {
	return c.t.store.keys.digests.Load().Fingerprint(content)
}

// Links implements compose.Store.
func (c *composing) Links(ctx context.Context, uids []string) (map[string]compose.Links, error) {
	var uses []*useRow
	if err := c.t.sql.NewSelect().Model(&uses).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return nil, translate("read uses of sets", err)
	}
	var references []*referenceRow
	if err := c.t.sql.NewSelect().Model(&references).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return nil, translate("read references of services", err)
	}
	links := map[string]compose.Links{}
	for _, row := range uses {
		l := links[row.ServiceUID]
		if l.Sets == nil {
			l.Sets = map[string]bool{}
		}
		l.Sets[row.SetName] = row.IsOpen == 1
		links[row.ServiceUID] = l
	}
	for _, row := range references {
		l := links[row.ServiceUID]
		l.Entries = append(l.Entries, keyOf(row.EntryID))
		links[row.ServiceUID] = l
	}
	for _, l := range links {
		slices.SortFunc(l.Entries, compose.EntryKey.Compare)
	}
	return links, nil
}

// Paths implements compose.Store.
func (c *composing) Paths(ctx context.Context, project string) (most int, err error) {
	if project == "" {
		err = c.t.sql.NewRaw(`SELECT COALESCE(MAX(n), 0) FROM (
			SELECT COUNT(*) AS n FROM config_entries GROUP BY backend_uid) AS counted`).Scan(ctx, &most)
		return most, translate("count entries", err)
	}
	err = c.t.sql.NewRaw(`SELECT COALESCE(MAX(n), 0) FROM (
		SELECT COUNT(*) AS n FROM (
			SELECT ce.id, ce.backend_uid FROM config_references AS cr JOIN services AS s ON s.uid = cr.service_uid
				JOIN config_entries AS ce ON ce.id = cr.entry_id WHERE s.project = ?
			UNION SELECT ce.id, ce.backend_uid FROM variant_references AS vr JOIN config_variants AS cv ON cv.id = vr.variant_id
				JOIN config_entries AS ce ON ce.id = vr.entry_id WHERE cv.project = ?
		) AS used GROUP BY used.backend_uid) AS counted`, project, project).Scan(ctx, &most)
	return most, translate("count entries of project", err)
}
