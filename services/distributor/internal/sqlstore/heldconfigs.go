// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// heldRow is a configuration that services are held at. Values and secrets are sealed together and bound to
// the name.
type heldRow struct {
	bun.BaseModel `bun:"table:held_configs,alias:hc"`
	Name          string                       `bun:"name,pk"`
	Config        column[catalog.StagedConfig] `bun:"config"`
	Sealed        []byte                       `bun:"sealed"`
}

// heldLiterals is the sealed form of values and secrets.
type heldLiterals struct {
	Values  map[string]string `json:"values,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

var heldValues = sealedColumn{"held_configs", "name", "sealed", purposeSecrets, "held configuration *"}

func isConfigName(name string) bool { return name != "" && name != catalog.NoConfig }

// sealHeld returns the row of a configuration.
func sealHeld(k *keyStore, h *compose.Held) (*heldRow, error) {
	sealed, err := heldValues.sealJSON(k, h.Name, heldLiterals{Values: h.Literals.Values, Secrets: revealed(h.Literals.Secrets)})
	return &heldRow{Name: h.Name, Config: columnOf(h.StagedConfig), Sealed: sealed}, err
}

// public returns what anybody may see of a held configuration.
func (r *heldRow) public() *catalog.StagedConfig {
	config := r.Config.v
	config.Name = r.Name
	return &config
}

func (r *heldRow) open(k *keyStore) (*compose.Held, error) {
	var plain heldLiterals
	if err := heldValues.openJSON(k, r.Name, r.Sealed, &plain); err != nil {
		return nil, err
	}
	return &compose.Held{StagedConfig: *r.public(), Literals: &catalog.Config{
		Values: plain.Values, Secrets: concealed(plain.Secrets), References: r.Config.v.ClusterReferences, Restart: r.Config.v.Restart,
	}}, nil
}

// heldConfigs returns the configurations of these names. One that is not stored is missing.
func heldConfigs(ctx context.Context, db bun.IDB, k *keyStore, names []string) (map[string]*compose.Held, error) {
	found := map[string]*compose.Held{}
	for some := range slices.Chunk(names, maxKeys) {
		var rows []*heldRow
		if err := db.NewSelect().Model(&rows).Where("name IN (?)", bun.List(some)).Scan(ctx); err != nil {
			return nil, translate("read held configurations", err)
		}
		for _, row := range rows {
			opened, err := row.open(k)
			if err != nil {
				return nil, err
			}
			found[row.Name] = opened
		}
	}
	return found, nil
}

// nameConfigs names the configurations of services that an earlier version stored.
func nameConfigs(ctx context.Context, s *Store) error {
	var rows []*serviceRow
	query := s.db.NewSelect().Model(&rows).Column("uid", "config").Order("uid")
	err := query.Where(`config NOT LIKE '{"digest":""%'`).Scan(ctx)
	if err != nil {
		return translate("read configurations", err)
	}
	hasName := func(r *serviceRow) bool { return r.Config.v.Digest == "" || r.Config.v.Name != "" }
	rows = slices.DeleteFunc(rows, hasName)
	for chunk := range slices.Chunk(rows, compose.ChunkSize) {
		uids := make([]string, len(chunk))
		for i, row := range chunk {
			uids[i] = row.UID
		}
		err := s.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
			_, err := settle(ctx, t, uids)
			return err
		})
		if err != nil {
			return fmt.Errorf("name configurations: %w", err)
		}
	}
	return nil
}
