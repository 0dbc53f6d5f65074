// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxDependents bounds the names that Dependents returns.
const maxDependents = 10

// reading makes a function that only reads one for an edit.
func reading(
	users func(ctx context.Context, db bun.IDB, name string) ([]catalog.Key, error),
) func(ctx context.Context, t *tx, name string) ([]catalog.Key, error) {
	return func(ctx context.Context, t *tx, name string) ([]catalog.Key, error) { return users(ctx, t.sql, name) }
}

// keysOf returns the objects of a kind whose names a query selects.
func keysOf(ctx context.Context, kind catalog.Kind, query *bun.SelectQuery) ([]catalog.Key, error) {
	var names []string
	err := query.Scan(ctx, &names)
	keys := make([]catalog.Key, len(names))
	for i, name := range names {
		keys[i] = catalog.Key{Kind: kind, Name: name}
	}
	return keys, translate("list dependents", err)
}

// servicesNamed selects the names of services, s.
func servicesNamed(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().TableExpr("services AS s").Column("s.name").Order("s.name").Limit(maxDependents)
}

// servicesOf returns the services of a cluster.
func servicesOf(ctx context.Context, db bun.IDB, cluster string) ([]catalog.Key, error) {
	return keysOf(ctx, catalog.KindService, servicesNamed(db).Join("JOIN clusters AS c ON c.uid = s.cluster_uid").Where("c.name = ?", cluster))
}

// readsRepository returns what reads a repository: fleet sources, or else services and global services, or else image policies,
// or else services that are held at a spec.
func readsRepository(ctx context.Context, db bun.IDB, repository string) ([]catalog.Key, error) {
	keys, err := keysOf(ctx, catalog.KindFleetSource,
		db.NewSelect().Table("fleet_sources").Column("name").Where("repository = ?", repository).Order("name").Limit(maxDependents))
	if err != nil || len(keys) > 0 {
		return keys, err
	}
	keys, err = keysOf(ctx, catalog.KindService, servicesNamed(db).Join("JOIN service_sources AS ss ON ss.service_uid = s.uid").
		Join("JOIN repositories AS r ON r.uid = ss.repository_uid").Where("r.name = ?", repository))
	if err != nil || len(keys) == maxDependents {
		return keys, err
	}
	globals, err := keysOf(ctx, catalog.KindGlobalService, globalsNamed(db, maxDependents-len(keys)).
		Join("JOIN global_service_sources AS ss ON ss.global_uid = gs.uid").
		Join("JOIN repositories AS r ON r.uid = ss.repository_uid").Where("r.name = ?", repository))
	if keys = append(keys, globals...); err != nil || len(keys) > 0 {
		return keys, err
	}
	if keys, err = imagePoliciesNaming(ctx, db, repository); err != nil || len(keys) > 0 {
		return keys, err
	}
	return heldReading(ctx, db, repository)
}

// globalsNamed selects the names of global services, gs.
func globalsNamed(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().TableExpr("global_services AS gs").Column("gs.name").Order("gs.name").Limit(int64(limit))
}

// refersToBackend returns the services and the global services that refer to a back end.
func refersToBackend(ctx context.Context, db bun.IDB, backend string) ([]catalog.Key, error) {
	keys, err := keysOf(ctx, catalog.KindService, servicesNamed(db).
		Where(`s.uid IN (SELECT cr.service_uid FROM config_references AS cr JOIN config_entries AS ce ON ce.id = cr.entry_id
			JOIN config_backends AS cb ON cb.uid = ce.backend_uid WHERE cb.name = ?)`, backend))
	if err != nil || len(keys) == maxDependents {
		return keys, err
	}
	globals, err := keysOf(ctx, catalog.KindGlobalService, globalsNamed(db, maxDependents-len(keys)).
		Where(`gs.uid IN (SELECT cv.global_uid FROM config_variants AS cv JOIN variant_references AS vr ON vr.variant_id = cv.id
			JOIN config_entries AS ce ON ce.id = vr.entry_id JOIN config_backends AS cb ON cb.uid = ce.backend_uid WHERE cb.name = ?)`, backend))
	return append(keys, globals...), err
}

// bindingsOf returns the bindings that give a role. Their specs are JSON, so it reads all of them; roles are rarely
// deleted.
func bindingsOf(ctx context.Context, db bun.IDB, role string) (keys []catalog.Key, err error) {
	all, err := storedBindings.list(ctx, db.NewSelect().Order("name"))
	for _, binding := range all {
		if binding.Spec.Role == catalog.RoleName(role) && len(keys) < maxDependents {
			keys = append(keys, binding.Key())
		}
	}
	return keys, translate("list bindings of role", err)
}

// heldBy returns some of the objects of a project: of each kind maxDependents at most.
func heldBy(ctx context.Context, t *tx, project string) (all []catalog.Key, err error) {
	for _, table := range t.store.tables {
		if !table.kind.InProject() {
			continue
		}
		query := table.from(t.sql.NewSelect()).Column("name").Where("project = ?", project).Order("name").Limit(maxDependents)
		keys, err := keysOf(ctx, table.kind, query)
		if all = append(all, keys...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// usersOf returns some of what names a set: projects that list it, sets and global services that refer to
// it, and services that use it. Except for services these are JSON, so it reads all of them; sets are rarely
// deleted.
func usersOf(ctx context.Context, db bun.IDB, name string) ([]catalog.Key, error) {
	globals, err := storedGlobals.list(ctx, db.NewSelect().Model((*globalRow)(nil)).ExcludeColumn("secrets").Order("name"))
	projects, err2 := storedProjects.list(ctx, db.NewSelect().Order("name"))
	sets, err3 := storedSets.list(ctx, db.NewSelect().Model((*setRow)(nil)).ExcludeColumn("sealed").Order("name"))
	services, err4 := keysOf(ctx, catalog.KindService, db.NewSelect().TableExpr("config_uses AS cu").Column("s.name").
		Join("JOIN services AS s ON s.uid = cu.service_uid").Where("cu.set_name = ? AND cu.is_open = 1", name).Order("s.name").Limit(maxDependents))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return nil, translate("list users of set", err)
	}
	var keys []catalog.Key
	for _, project := range projects {
		if slices.Contains(project.Spec.ConfigSets, name) {
			keys = append(keys, project.Key())
		}
	}
	for _, set := range sets {
		if set.Name != name && refersTo(set, name) {
			keys = append(keys, set.Key())
		}
	}
	for _, global := range globals {
		if global.NamesSet(name) {
			keys = append(keys, global.Key())
		}
	}
	keys = append(keys, services...)
	return keys[:min(len(keys), maxDependents)], nil
}

// refersTo reports whether a reference of the set names another set.
func refersTo(set *catalog.ConfigSet, name string) bool {
	if set.Spec.Config == nil {
		return false
	}
	for _, text := range set.Spec.Config.References {
		if reference, err := catalog.ParseHubReference(text, objectname.Project(set.Name)); err == nil && reference.Set == name {
			return true
		}
	}
	return false
}

// heldReading returns services that are held at a spec with a source of a repository, at most maxDependents. It
// reads all specs, which are JSON: few are held, and repositories are rarely deleted.
func heldReading(ctx context.Context, db bun.IDB, repository string) ([]catalog.Key, error) {
	var rows []*stagedRow
	if err := db.NewSelect().Model(&rows).Scan(ctx); err != nil {
		return nil, translate("read staged specs", err)
	}
	var digests []string
	for _, row := range rows {
		if slices.ContainsFunc(row.Spec.v.Sources, func(s catalog.Source) bool { return s.Repository == repository }) {
			digests = append(digests, row.Digest)
		}
	}
	var keys []catalog.Key
	for some := range slices.Chunk(digests, maxKeys) {
		query := db.NewSelect().Model((*admissionRow)(nil)).Column("service").Where("spec IN (?)", bun.List(some)).Order("service")
		held, err := keysOf(ctx, catalog.KindService, query.Limit(int64(maxDependents-len(keys))))
		if err != nil {
			return nil, err
		}
		if keys = append(keys, held...); len(keys) >= maxDependents {
			break
		}
	}
	return keys, nil
}
