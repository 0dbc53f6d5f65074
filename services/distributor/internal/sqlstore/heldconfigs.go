// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
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

// heldGivenRow holds a service's values for the references of the configuration that it is held at.
type heldGivenRow struct {
	bun.BaseModel `bun:"table:held_given,alias:hg"`
	ServiceUID    string `bun:"service_uid,pk"`
	Sealed        []byte `bun:"sealed"`
}

// heldLiterals is the sealed form of values and secrets.
type heldLiterals struct {
	Values  map[string]string `json:"values,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

// heldConfig is a configuration that services are held at.
type heldConfig struct {
	catalog.StagedConfig

	// literals are the values, the secrets, and the references that the agent follows itself.
	literals *catalog.Config
}

var (
	heldValues      = sealedColumn{"held_configs", "name", "sealed", purposeSecrets, "held configuration *"}
	heldGivenValues = sealedColumn{"held_given", "service_uid", "sealed", purposeEntries, "given while held *"}
)

func isConfigName(name string) bool { return name != "" && name != catalog.NoConfig }

// nameConfig returns the name of a service's configuration as people wrote it: a keyed digest of
// the values, the secrets and the references, or "" if a layer refers to a missing value. The
// project keeps apart services of different projects: no reader is to learn that they hold the same
// secrets.
func (c *composer) nameConfig(s *composition) string {
	switch {
	case s.Waits:
		return ""
	case s.literals.Empty() && len(s.Keys) == 0:
		return catalog.NoConfig
	}
	text := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	b := text([]byte("leat.config.name.v1\x00"), string(canonical(s.row.Project, s.literals)))
	for _, key := range slices.Sorted(maps.Keys(s.references)) {
		b = text(text(b, key), s.references[key])
	}
	return c.t.store.keys.digests.Load().Fingerprint(b)
}

// staged returns the configuration of a service as people wrote it, to be held.
func (s *composition) staged() *heldConfig {
	return &heldConfig{literals: s.literals, StagedConfig: catalog.StagedConfig{
		Name: s.name, References: s.references, ClusterReferences: s.literals.References, Restart: s.literals.Restart,
	}}
}

// seal returns the row of a configuration.
func (h *heldConfig) seal(s *Store) (*heldRow, error) {
	sealed, err := heldValues.sealJSON(s.keys, h.Name, heldLiterals{Values: h.literals.Values, Secrets: revealed(h.literals.Secrets)})
	return &heldRow{Name: h.Name, Config: columnOf(h.StagedConfig), Sealed: sealed}, err
}

// public returns what anybody may see of a held configuration.
func (r *heldRow) public() *catalog.StagedConfig {
	config := r.Config.v
	config.Name = r.Name
	return &config
}

func (r *heldRow) open(s *Store) (*heldConfig, error) {
	var plain heldLiterals
	if err := heldValues.openJSON(s.keys, r.Name, r.Sealed, &plain); err != nil {
		return nil, err
	}
	return &heldConfig{StagedConfig: *r.public(), literals: &catalog.Config{
		Values: plain.Values, Secrets: concealed(plain.Secrets), References: r.Config.v.ClusterReferences, Restart: r.Config.v.Restart,
	}}, nil
}

// heldConfigs returns the configurations of these names. One that is not stored is missing.
func heldConfigs(ctx context.Context, s *Store, db bun.IDB, names []string) (map[string]*heldConfig, error) {
	found := map[string]*heldConfig{}
	for some := range slices.Chunk(names, maxKeys) {
		var rows []*heldRow
		if err := db.NewSelect().Model(&rows).Where("name IN (?)", bun.List(some)).Scan(ctx); err != nil {
			return nil, translate("read held configurations", err)
		}
		for _, row := range rows {
			opened, err := row.open(s)
			if err != nil {
				return nil, err
			}
			found[row.Name] = opened
		}
	}
	return found, nil
}

// loadHeld adds to compositions the configurations that their services are held at, where these are not
// their own.
func (c *composer) loadHeld(ctx context.Context, all []*composition, uids []string) error {
	var admitted []struct {
		ServiceUID string `bun:"service_uid"`
		Config     string `bun:"config"`
	}
	err := c.t.sql.NewSelect().Table("admissions").Column("service_uid", "config").
		Where("service_uid IN (?)", bun.List(uids)).Where("config <> ''").Scan(ctx, &admitted)
	if err != nil {
		return translate("read admissions", err)
	}
	var given []*heldGivenRow
	if err := c.t.sql.NewSelect().Model(&given).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return translate("read given values of held configurations", err)
	}
	byUID := make(map[string]*composition, len(all))
	for _, s := range all {
		byUID[s.row.UID] = s
	}
	for _, row := range given {
		if s := byUID[row.ServiceUID]; s != nil {
			if s.heldGiven, err = openValues(c.t.store, heldGivenValues, row.ServiceUID, row.Sealed); err != nil {
				return err
			}
		}
	}
	var missing []string
	for _, row := range admitted {
		s := byUID[row.ServiceUID]
		if s == nil || row.Config == s.name {
			continue
		}
		s.heldName = row.Config
		if _, isKnown := c.held[row.Config]; !isKnown && row.Config != catalog.NoConfig {
			missing = append(missing, row.Config)
		}
	}
	slices.Sort(missing)
	found, err := heldConfigs(ctx, c.t.store, c.t.sql, slices.Compact(missing))
	if err != nil {
		return err
	}
	maps.Copy(c.held, found)
	for _, s := range all {
		s.held = c.held[s.heldName]
	}
	return nil
}

// allReferences returns the references to back ends of a service's own configuration, and of the one that it is
// held at.
func (s *composition) allReferences() []map[string]string {
	if s.held == nil {
		return []map[string]string{s.references}
	}
	return []map[string]string{s.references, s.held.References}
}

// earlier returns what a service was given for references, with either configuration.
func (s *composition) earlier(references map[string]string) map[string]configs.Value {
	if len(s.heldGiven) == 0 && s.held == nil {
		return s.given
	}
	earlier := map[string]configs.Value{}
	for key, text := range references {
		for _, given := range []map[string]configs.Value{s.given, s.heldGiven} {
			if value, ok := given[key]; ok && value.Reference == text {
				earlier[key] = value
				break
			}
		}
	}
	return earlier
}

// decideHeld returns what a service is given of the configuration that it is held at, or nil if it has its own.
func (c *composer) decideHeld(ctx context.Context, s *composition, next *settlement) (*catalog.HeldConfig, error) {
	given := map[string]configs.Value{}
	var config *catalog.HeldConfig
	switch {
	case s.heldName == "":
	case s.heldName == catalog.NoConfig:
		config = &catalog.HeldConfig{Name: s.heldName}
	case s.held == nil:
		config = &catalog.HeldConfig{Name: s.heldName, Waits: true, Problem: &catalog.Problem{
			Reason: reason.ConfigMissing, Message: "the configuration that the service is held at is not stored",
		}}
	default:
		out, err := c.resolve(ctx, request{
			references: s.held.References, project: s.row.Project, given: s.earlier(s.held.References),
		})
		if err != nil {
			return nil, err
		}
		given = out.Values
		digest := c.t.store.keys.digests.Load().Fingerprint(canonical(s.row.UID, withGiven(s.held.literals, given)))
		config = &catalog.HeldConfig{Name: s.heldName, Digest: digest, Waits: out.Waits, Problem: out.Problem}
	}
	if config != nil && config.Problem != nil {
		config.Problem.Since = catalog.Now()
		if last := s.row.Config.v.Held; last != nil && last.Problem != nil {
			config.Problem.Since = last.Problem.Since
		}
	}
	switch {
	case maps.Equal(s.heldGiven, given):
	case len(given) == 0:
		next.unheld = append(next.unheld, s.row.UID)
	default:
		sealed, err := sealValues(c.t.store, heldGivenValues, s.row.UID, given)
		if err != nil {
			return nil, err
		}
		next.held = append(next.held, &heldGivenRow{ServiceUID: s.row.UID, Sealed: sealed})
	}
	return config, nil
}

// planned returns the configuration that a service is planned with, and its digest.
func (s *composition) planned() (catalog.Config, string, error) {
	stored := s.row.Config.v
	switch {
	case s.heldName == "":
		if stored.Digest == "" {
			return catalog.Config{}, "", nil
		}
		return *withGiven(s.literals, s.given), stored.Digest, nil
	case s.heldName == catalog.NoConfig:
		return catalog.Config{}, "", nil
	case s.held == nil || stored.Held == nil || stored.Held.Name != s.heldName:
		err := fmt.Errorf("%w: the configuration of service %s is not composed", catalog.ErrUnavailable, s.row.Name)
		return catalog.Config{}, "", err
	}
	return *withGiven(s.held.literals, s.heldGiven), stored.Held.Digest, nil
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
	for chunk := range slices.Chunk(rows, settleChunk) {
		uids := make([]string, len(chunk))
		for i, row := range chunk {
			uids[i] = row.UID
		}
		err := s.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
			_, err := settle(ctx, t, uids, numbered)
			return err
		})
		if err != nil {
			return fmt.Errorf("name configurations: %w", err)
		}
	}
	return nil
}
