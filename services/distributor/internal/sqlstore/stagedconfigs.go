// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// runConfigRow records that a rollout may bring a configuration, or go back to it.
type runConfigRow struct {
	bun.BaseModel `bun:"table:rollout_configs,alias:rc"`
	RunID         string `bun:"run_id,pk"`
	Name          string `bun:"name,pk"`
}

// KeepConfigs implements drive.Store. Configurations are composed in transactions of their own, because
// the expressions of a global service may take long. They are sealed with the rows, while the sealing key
// stays the same.
func (s *Rollouts) KeepConfigs(
	ctx context.Context, term int64, wishes []drive.ConfigWish,
) (lacking []string, err error) {
	for chunk := range slices.Chunk(wishes, compose.ChunkSize) {
		some, err := s.keepConfigs(ctx, term, chunk)
		if err != nil {
			return nil, err
		}
		lacking = append(lacking, some...)
	}
	return lacking, nil
}

func (s *Rollouts) keepConfigs(
	ctx context.Context, term int64, wishes []drive.ConfigWish,
) (lacking []string, err error) {
	byName := make(map[string]drive.ConfigWish, len(wishes))
	for _, wish := range wishes {
		if isConfigName(wish.Name) {
			byName[wish.Name] = wish
		}
	}
	if len(byName) == 0 {
		return nil, nil
	}
	var known []string
	query := s.store.db.NewSelect().Model((*heldRow)(nil)).Column("name")
	err = query.Where("name IN (?)", bun.List(slices.Sorted(maps.Keys(byName)))).Scan(ctx, &known)
	if err != nil {
		return nil, translate("read held configurations", err)
	}
	for _, name := range known {
		delete(byName, name)
	}
	found, err := s.composeWishes(ctx, byName)
	if err != nil {
		return nil, err
	}
	for name := range byName {
		if found[name] == nil {
			lacking = append(lacking, name)
		}
	}
	if len(found) == 0 {
		return lacking, nil
	}
	return lacking, s.store.editWith(ctx, quietly, func(ctx context.Context, t *tx) error {
		t.dirty = true
		if err := s.hold(ctx, t.sql, term); err != nil {
			return err
		}
		rows := make([]*heldRow, 0, len(found))
		for _, name := range slices.Sorted(maps.Keys(found)) {
			row, err := sealHeld(t.store.keys, found[name])
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		for chunk := range slices.Chunk(rows, maxRows) {
			if _, err := t.sql.NewInsert().Model(&chunk).On("CONFLICT (name) DO NOTHING").Exec(ctx); err != nil {
				return translate("write held configurations", err)
			}
		}
		return nil
	})
}

// composeWishes returns the configurations of the wishes by name. One is missing if its service has another one
// now, or cannot be derived.
func (s *Rollouts) composeWishes(
	ctx context.Context, byName map[string]drive.ConfigWish,
) (map[string]*compose.Held, error) {
	found := make(map[string]*compose.Held, len(byName))
	var uids []string
	for name, wish := range byName {
		if wish.Service.Derived == nil {
			uids = append(uids, wish.Service.UID)
			continue
		}
		if wish.Cluster == nil {
			continue
		}
		add := func(_ context.Context, _ *tx, m derivedMember) error {
			if m.service.ConfigName == name {
				found[name] = m.Staged()
			}
			return nil
		}
		// A global service that is gone, or cannot be derived, must not hold up other policies.
		err := Globals{s.store}.member(ctx, wish.Service, wish.Cluster, add)
		_, isFailing := errors.AsType[*derive.Error](err)
		if err != nil && (ctx.Err() != nil || errors.Is(err, catalog.ErrUnavailable) && !isFailing) {
			return nil, err
		}
	}
	if len(uids) > 0 {
		err := s.store.opening(ctx, func(ctx context.Context) error {
			return s.store.read(ctx, "read configurations", func(ctx context.Context, sqlTx bun.Tx) error {
				all, err := newComposer(newTx(s.store, sqlTx)).Compose(ctx, uids)
				for _, c := range all {
					staged := c.Staged()
					if _, isWished := byName[staged.Name]; isWished {
						found[staged.Name] = staged
					}
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Staged returns the configuration of a derived service as people wrote it, to be held.
func (m *derivedMember) Staged() *compose.Held {
	held := m.Composition.Staged()
	held.Name, held.Digest = m.service.ConfigName, m.service.ConfigDigest
	if config := m.service.Derived.Config; config != nil {
		held.Digest, held.Variant = config.Digest, &config.Variant
	}
	return held
}

// ChangedKeys implements drive.Store.
func (s *Rollouts) ChangedKeys(ctx context.Context, pairs [][2]string) (keys []string, err error) {
	var names []string
	for _, pair := range pairs {
		names = append(names, pair[0], pair[1])
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !isConfigName(name) })
	err = s.store.opening(ctx, func(ctx context.Context) error {
		found, err := heldConfigs(ctx, s.store.db, s.store.keys, names)
		if err != nil {
			return err
		}
		changed := map[string]struct{}{}
		for _, pair := range pairs {
			compose.Differ(found[pair[0]], found[pair[1]], changed)
		}
		keys = slices.Sorted(maps.Keys(changed))
		return nil
	})
	return keys, err
}

// HeldKeys returns the keys in which the configuration that a rollout holds a service at differs
// from the service's own. cluster is the cluster of a derived service as its project knows it.
func (e *Entries) HeldKeys(
	ctx context.Context, service *catalog.Service, cluster *catalog.Cluster,
) (keys []string, err error) {
	compare := func(ctx context.Context, t *tx, own *compose.Held) error {
		name, held, err := admittedConfig(ctx, t.sql, t.store.keys, service.UID)
		if keys = nil; err != nil || name == "" {
			return err
		}
		changed := map[string]struct{}{}
		compose.Differ(held, own, changed)
		keys = slices.Sorted(maps.Keys(changed))
		return nil
	}
	if service.Derived != nil {
		err = Globals{e.store}.member(ctx, service, cluster, func(ctx context.Context, t *tx, m derivedMember) error {
			return compare(ctx, t, m.Staged())
		})
		return keys, err
	}
	err = e.store.opening(ctx, func(ctx context.Context) error {
		return e.store.read(ctx, "compare configurations", func(ctx context.Context, sqlTx bun.Tx) error {
			t := newTx(e.store, sqlTx)
			all, err := newComposer(t).Compose(ctx, []string{service.UID})
			if err != nil || len(all) == 0 {
				return err
			}
			return compare(ctx, t, all[0].Staged())
		})
	})
	return keys, err
}

// admittedConfig returns the configuration that a rollout holds a service at, and its name, which is empty if no
// rollout does. The configuration is nil for catalog.NoConfig.
func admittedConfig(
	ctx context.Context, db bun.IDB, k *keyStore, serviceUID string,
) (name string, held *compose.Held, err error) {
	var names []string
	query := db.NewSelect().Model((*admissionRow)(nil)).Column("config")
	err = query.Where("service_uid = ?", serviceUID).Where("config <> ''").Scan(ctx, &names)
	if err != nil || len(names) == 0 {
		return "", nil, translate("read admission", err)
	}
	if names[0] == catalog.NoConfig {
		return names[0], nil, nil
	}
	found, err := heldConfigs(ctx, db, k, names)
	if err == nil && found[names[0]] == nil {
		err = fmt.Errorf("%w: the configuration that the service is held at is not stored", catalog.ErrUnavailable)
	}
	return names[0], found[names[0]], err
}

// held returns the configuration at which a rollout holds a derived service, and its digest. isHeld is false if
// that is the one with the name own, or if no rollout holds the service.
func (g Globals) held(
	ctx context.Context, t *tx, serviceUID, own string,
) (config catalog.Config, digest string, isHeld bool, err error) {
	name, h, err := admittedConfig(ctx, t.sql, t.store.keys, serviceUID)
	if err != nil || name == "" || name == own {
		return config, "", false, err
	}
	if h == nil {
		return config, "", true, nil
	}
	if h.Variant == nil {
		return *h.Literals, h.Digest, true, nil
	}
	row := new(variantRow)
	err = t.sql.NewSelect().Model(row).Where("id = ? AND ended_at = 0", h.Variant.ID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return config, "", false, fmt.Errorf("%w: the values of back ends are not read yet", catalog.ErrUnavailable)
	}
	if err != nil {
		return config, "", false, translate("read variant", err)
	}
	given, err := openValues(t.store.keys, variantValues, row.ID, row.Sealed)
	if err != nil {
		return config, "", false, err
	}
	return *compose.WithGiven(h.Literals, given), derive.WithValues(h.Digest, row.Digest), true, nil
}

// linkConfigs stores which configurations a rollout may bring or go back to. Configurations of a
// rollout that has ended are forgotten, unless another one replaces it, which begins with them.
func linkConfigs(ctx context.Context, db bun.IDB, r *drive.Record) error {
	if r.Run.State.HasEnded() && r.Run.State != rollout.Replaced {
		_, err := db.NewDelete().Model((*runConfigRow)(nil)).Where("run_id = ?", r.ID).Exec(ctx)
		if err != nil {
			return translate("forget configurations of rollout", err)
		}
		return forgetConfigs(ctx, db)
	}
	names := slices.Sorted(maps.Values(r.Start.ConfigOf))
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !isConfigName(name) })
	if err := checkConfigs(ctx, db, names); err != nil {
		return err
	}
	rows := make([]*runConfigRow, len(names))
	for i, name := range names {
		rows[i] = &runConfigRow{RunID: r.ID, Name: name}
	}
	for chunk := range slices.Chunk(rows, maxRows) {
		if _, err := db.NewInsert().Model(&chunk).On("CONFLICT (run_id, name) DO NOTHING").Exec(ctx); err != nil {
			return translate("write configurations of rollout", err)
		}
	}
	if r.Version > 0 {
		return nil
	}
	_, err := db.NewDelete().Model((*runConfigRow)(nil)).
		Where("run_id IN (SELECT id FROM rollout_runs WHERE policy_uid = ? AND id <> ?)", r.PolicyUID, r.ID).Exec(ctx)
	if err != nil {
		return translate("forget configurations of rollouts", err)
	}
	return forgetConfigs(ctx, db)
}

// forgetConfigs deletes the configurations that no service is held at, and that no rollout under way may bring.
func forgetConfigs(ctx context.Context, db bun.IDB) error {
	isHeld := db.NewSelect().Model((*admissionRow)(nil)).ColumnExpr("1").Where("ad.config = hc.name")
	isNamed := db.NewSelect().Model((*runConfigRow)(nil)).ColumnExpr("1").Where("rc.name = hc.name")
	query := db.NewDelete().Model((*heldRow)(nil))
	_, err := query.Where("NOT EXISTS (?)", isHeld).Where("NOT EXISTS (?)", isNamed).Exec(ctx)
	return translate("forget held configurations", err)
}
