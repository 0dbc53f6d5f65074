// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// admissionRow holds the admission with which a service is planned. An empty row means that it was
// released.
type admissionRow struct {
	bun.BaseModel `bun:"table:admissions,alias:ad"`
	ServiceUID    string                       `bun:"service_uid,pk"`
	Service       string                       `bun:"service"`
	Run           string                       `bun:"run_id"`
	Content       column[[]catalog.HeldSource] `bun:"content"`
	// Spec is the digest of a stagedRow; empty: none is held.
	Spec string `bun:"spec"`
	// Config is the name of a heldRow, or catalog.NoConfig; empty: none is held.
	Config   string               `bun:"config"`
	Pin      column[*catalog.Pin] `bun:"pin"`
	Revision int64                `bun:"revision"`
}

func (r *admissionRow) admission() catalog.Admission {
	return catalog.Admission{ServiceUID: r.ServiceUID, Service: r.Service, Run: r.Run, Content: r.Content.v, Config: r.Config, Pin: r.Pin.v}
}

// stagedRow is a spec that services are held at.
type stagedRow struct {
	bun.BaseModel `bun:"table:staged_specs,alias:ss"`
	Digest        string                     `bun:"digest,pk"`
	Spec          column[catalog.StagedSpec] `bun:"spec"`
}

// collectAdmissions reads the admissions that a query selects. Those with equal specs share one.
func collectAdmissions(ctx context.Context, db bun.IDB, query *bun.SelectQuery, changes *catalog.Changes) error {
	var rows []*admissionRow
	if err := list(ctx, query, &rows, func(r *admissionRow) *admissionRow { return r }); err != nil {
		return err
	}
	specs := map[string]*catalog.StagedSpec{}
	for _, row := range rows {
		if row.Spec != "" {
			specs[row.Spec] = nil
		}
	}
	for digests := range slices.Chunk(slices.Sorted(maps.Keys(specs)), maxKeys) {
		var stored []*stagedRow
		if err := db.NewSelect().Model(&stored).Where("digest IN (?)", bun.List(digests)).Scan(ctx); err != nil {
			return err
		}
		for _, row := range stored {
			specs[row.Digest] = &row.Spec.v
		}
	}
	staged, err := stagedConfigs(ctx, db, rows)
	if err != nil {
		return err
	}
	changes.Admissions = make([]catalog.Admission, len(rows))
	for i, row := range rows {
		changes.Admissions[i] = row.admission()
		if changes.Admissions[i].Spec = specs[row.Spec]; row.Spec != "" && specs[row.Spec] == nil {
			return fmt.Errorf("read admission of %s: its spec %s is not stored", row.Service, row.Spec)
		}
		changes.Admissions[i].Staged = staged[row.Config]
	}
	return nil
}

// stagedConfigs returns what anybody may see of the configurations that admissions name.
func stagedConfigs(ctx context.Context, db bun.IDB, rows []*admissionRow) (map[string]*catalog.StagedConfig, error) {
	names := map[string]struct{}{}
	for _, row := range rows {
		if isConfigName(row.Config) {
			names[row.Config] = struct{}{}
		}
	}
	staged := make(map[string]*catalog.StagedConfig, len(names))
	for some := range slices.Chunk(slices.Sorted(maps.Keys(names)), maxKeys) {
		var stored []*heldRow
		if err := db.NewSelect().Model(&stored).Column("name", "config").Where("name IN (?)", bun.List(some)).Scan(ctx); err != nil {
			return nil, err
		}
		for _, row := range stored {
			staged[row.Name] = row.public()
		}
	}
	return staged, nil
}

// Admissions is the part of a store about what services are planned with. It is safe for concurrent
// use.
type Admissions struct{ store *Store }

var _ catalog.Pins = (*Admissions)(nil)

// AdmissionsOf returns the part of a store about what services are planned with.
func AdmissionsOf(s *Store) *Admissions { return &Admissions{store: s} }

// Pin implements catalog.Pins.
func (a *Admissions) Pin(ctx context.Context, serviceUID, service string, pin *catalog.Pin) (hasChanged bool, err error) {
	verb := catalog.VerbRollback
	if pin == nil {
		verb = catalog.VerbRelease
	}
	err = a.store.edit(ctx, func(ctx context.Context, t *tx) error {
		row := new(admissionRow)
		err := t.sql.NewSelect().Model(row).Where("service_uid = ?", serviceUID).Scan(ctx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return translate("read admission", err)
		}
		if hasChanged = !reflect.DeepEqual(row.Pin.v, pin); !hasChanged {
			return nil
		}
		t.dirty = true
		t.note(catalog.Change{Verb: verb, Kind: string(catalog.KindService), Name: service, UID: serviceUID, Cluster: clusterOf(service)})
		row.ServiceUID, row.Service, row.Pin, row.Revision = serviceUID, service, columnOf(pin), t.revision
		return translate("write pin", replace(ctx, t.sql, row, "service_uid", "service", "pin", "revision"))
	})
	return hasChanged, err
}

// parts are the parts of an admission's release besides its content.
type parts struct{ hasSpec, hasConfig bool }

// columns are the written columns of the row.
func (p parts) columns() []string {
	columns := []string{"service_uid", "service", "run_id", "content", "revision"}
	if p.hasSpec {
		columns = append(columns, "spec")
	}
	if p.hasConfig {
		columns = append(columns, "config")
	}
	return columns
}

// admit writes what rollouts admitted, and leaves pins as they are. Where an admission with content names no
// spec or no configuration, which rollouts of earlier versions do, the service keeps the one that it is held at.
// Services whose configuration it changes are given that in the same transaction.
// It reports whether there are some: their earlier configurations may be forgotten.
func (t *tx) admit(ctx context.Context, admissions []catalog.Admission) (isMoved bool, err error) {
	moved, err := movedServices(ctx, t.sql, admissions)
	if err != nil {
		return false, err
	}
	rows := map[parts][]*admissionRow{}
	specs, names := map[string]*stagedRow{}, make([]string, len(admissions))
	for i, a := range admissions {
		row := &admissionRow{
			ServiceUID: a.ServiceUID, Service: a.Service, Run: a.Run, Content: columnOf(a.Content), Config: a.Config, Revision: t.revision,
		}
		names[i] = a.Config
		if a.Spec != nil {
			row.Spec = a.Spec.Digest
			specs[row.Spec] = &stagedRow{Digest: row.Spec, Spec: columnOf(*a.Spec)}
		}
		says := parts{hasSpec: a.Spec != nil || a.Content == nil, hasConfig: a.Config != "" || a.Content == nil}
		rows[says] = append(rows[says], row)
	}
	if err := checkConfigs(ctx, t.sql, names); err != nil {
		return false, err
	}
	t.dirty = t.dirty || len(admissions) > 0
	for chunk := range slices.Chunk(slices.Collect(maps.Values(specs)), maxRows) {
		if _, err := t.sql.NewInsert().Model(&chunk).On("CONFLICT (digest) DO NOTHING").Exec(ctx); err != nil {
			return false, translate("write staged specs", err)
		}
	}
	for says, some := range rows {
		if err := replaceAll(ctx, t.sql, some, "service_uid", says.columns()...); err != nil {
			return false, translate("write admissions", err)
		}
	}
	_, err = settle(ctx, t, moved)
	return len(moved) > 0, err
}

// movedServices returns the uids of the services of which admissions change the configuration.
func movedServices(ctx context.Context, db bun.IDB, admissions []catalog.Admission) ([]string, error) {
	next := make(map[string]string, len(admissions))
	for _, a := range admissions {
		if a.Content == nil || a.Config != "" {
			next[a.ServiceUID] = a.Config
		}
	}
	var moved []string
	for uids := range slices.Chunk(slices.Sorted(maps.Keys(next)), maxKeys) {
		var rows []*admissionRow
		query := db.NewSelect().Model(&rows).Column("service_uid", "config")
		err := query.Where("service_uid IN (?)", bun.List(uids)).Scan(ctx)
		if err != nil {
			return nil, translate("read admissions", err)
		}
		had := map[string]string{}
		for _, row := range rows {
			had[row.ServiceUID] = row.Config
		}
		for _, uid := range uids {
			if had[uid] != next[uid] {
				moved = append(moved, uid)
			}
		}
	}
	return moved, nil
}

// checkConfigs returns drive.ErrMoved unless each configuration is stored.
func checkConfigs(ctx context.Context, db bun.IDB, names []string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isConfigName(name) })
	slices.Sort(names)
	for some := range slices.Chunk(slices.Compact(names), maxKeys) {
		n, err := db.NewSelect().Model((*heldRow)(nil)).Where("name IN (?)", bun.List(some)).Count(ctx)
		if err != nil {
			return translate("count held configurations", err)
		}
		if int(n) != len(some) {
			return drive.ErrMoved
		}
	}
	return nil
}

// forgetSpecs deletes the specs that no service is held at any more.
func forgetSpecs(ctx context.Context, db bun.IDB) error {
	isHeld := db.NewSelect().Model((*admissionRow)(nil)).ColumnExpr("1").Where("ad.spec = ss.digest")
	_, err := db.NewDelete().Model((*stagedRow)(nil)).Where("NOT EXISTS (?)", isHeld).Exec(ctx)
	return translate("forget staged specs", err)
}

// clusterOf returns the cluster in a service's name.
func clusterOf(service string) string {
	_, cluster := objectname.SplitService(service)
	return cluster
}
