// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/seal"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// configColumn is what anybody may see of a configuration.
type configColumn struct {
	Digest string            `json:"digest"`
	Values map[string]string `json:"values,omitempty"`
	// Secrets are the keys of the secrets, sorted.
	Secrets []string `json:"secrets,omitempty"`
	// References are texts of references by key. What they lead to is in service_given.
	References map[string]string `json:"references,omitempty"`
	Restart    bool              `json:"restart,omitempty"`
	// Problem and Waits are those of catalog.Service.
	Problem *catalog.Problem `json:"problem,omitempty"`
	Waits   bool             `json:"waits,omitempty"`
}

type secretsRow struct {
	bun.BaseModel `bun:"table:service_secrets,alias:sx"`
	ServiceUID    string `bun:"service_uid,pk"`
	Sealed        []byte `bun:"sealed"`
}

// configRow is a service's configuration and its secrets, read at once.
type configRow struct {
	Config column[configColumn] `bun:"config"`
	Sealed []byte               `bun:"sealed"`
	Given  []byte               `bun:"given"`
}

// configOf returns the column of a service's configuration, without a digest if it has none. What
// references lead to is not in the digest yet; see settle.
func (s *Store) configOf(service *catalog.Service) configColumn {
	config := service.Spec.Config
	if config.Empty() {
		return configColumn{}
	}
	return configColumn{
		Digest:  s.keys.digests.Load().Fingerprint(canonical(service.UID, config)),
		Values:  config.Values,
		Secrets: slices.Sorted(maps.Keys(config.Secrets)),

		References: config.References,
		Restart:    config.Restart,
	}
}

// canonical writes a configuration down such that different ones never read alike. The uid keeps
// apart services that hold the same secrets: nobody is to learn that they do.
func canonical(uid string, config *catalog.Config) []byte {
	text := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	b := text([]byte("leat.config.v1\x00"), uid)
	b = binary.BigEndian.AppendUint64(b, uint64(len(config.Values)))
	for _, key := range slices.Sorted(maps.Keys(config.Values)) {
		b = text(text(b, key), config.Values[key])
	}
	for _, key := range slices.Sorted(maps.Keys(config.Secrets)) {
		b = text(text(b, key), config.Secrets[key].Reveal())
	}
	// What only newer agents are given comes last, and only if there is some, so that the digests of
	// all other configurations stay as they are.
	own := config.ClusterReferences()
	if len(own) == 0 && !config.Restart {
		return b
	}
	b = text(b, "leat.config.cluster.v1\x00"+strconv.FormatBool(config.Restart))
	for _, key := range slices.Sorted(maps.Keys(own)) {
		b = text(text(b, key), own[key])
	}
	return b
}

// shown returns what anybody may see of a configuration, or nil for an absent one.
func (c configColumn) shown() *catalog.Config {
	if c.Digest == "" {
		return nil
	}
	config := &catalog.Config{Values: c.Values, Secrets: make(map[string]secret.Text, len(c.Secrets)), References: c.References, Restart: c.Restart}
	for _, key := range c.Secrets {
		config.Secrets[key] = ""
	}
	return config
}

// putSecrets stores a service's secrets, bound to its uid, or deletes them where there are none any
// more.
func (t *tx) putSecrets(ctx context.Context, service *catalog.Service) error {
	if service.Spec.Config.Empty() || len(service.Spec.Config.Secrets) == 0 {
		_, err := t.sql.NewDelete().Table("service_secrets").Where("service_uid = ?", service.UID).Exec(ctx)
		return err
	}
	plain := make(map[string]string, len(service.Spec.Config.Secrets))
	for key, secret := range service.Spec.Config.Secrets {
		plain[key] = secret.Reveal()
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return errors.New("encode secrets")
	}
	sealed, err := t.store.secrets.Seal(text, []byte(service.UID))
	if err != nil {
		return fmt.Errorf("seal secrets: %w", err)
	}
	return t.replace(ctx, &secretsRow{ServiceUID: service.UID, Sealed: sealed}, "service_uid", "sealed")
}

// serviceWithSecrets returns the row with its secrets.
func (t *tx) serviceWithSecrets(ctx context.Context, row *serviceRow) (*catalog.Service, error) {
	service := row.service()
	if service.Spec.Config == nil || len(service.Spec.Config.Secrets) == 0 {
		return service, nil
	}
	sealed := &secretsRow{ServiceUID: service.UID}
	err := t.sql.NewSelect().Model(sealed).WherePK().Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read secrets of service %s: %w", service.Name, err)
	}
	service.Spec.Config.Secrets, err = openSecrets(t.store.secrets, service.UID, sealed.Sealed)
	return service, err
}

func openSecrets(sealer *seal.Sealer, uid string, sealed []byte) (map[string]secret.Text, error) {
	text, err := sealer.Open(sealed, []byte(uid))
	if err != nil {
		return nil, fmt.Errorf("open secrets of service with uid %s: %w", uid, err)
	}
	var plain map[string]string
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, fmt.Errorf("decode secrets of service with uid %s", uid)
	}
	secrets := make(map[string]secret.Text, len(plain))
	for key, text := range plain {
		secrets[key] = secret.Text(text)
	}
	return secrets, nil
}

// Config implements catalog.Configs.
func (s *Store) Config(ctx context.Context, serviceUID string) (config catalog.Config, digest string, err error) {
	err = s.opening(ctx, func(ctx context.Context) error {
		config, digest, err = readConfig(ctx, s, serviceUID)
		return err
	})
	return config, digest, err
}

// readConfig reads a configuration. One statement sees one state, so digest, values and secrets belong
// together.
func readConfig(ctx context.Context, s *Store, serviceUID string) (catalog.Config, string, error) {
	row := configRow{}
	err := s.db.NewSelect().TableExpr("services AS s").Column("s.config", "sx.sealed").ColumnExpr("sg.sealed AS given").
		Join("LEFT JOIN service_secrets AS sx ON sx.service_uid = s.uid").Join("LEFT JOIN service_given AS sg ON sg.service_uid = s.uid").Where("s.uid = ?", serviceUID).Scan(ctx, &row)
	if errors.Is(err, sql.ErrNoRows) {
		return catalog.Config{}, "", nil
	}
	if err != nil {
		return catalog.Config{}, "", translate("read configuration", err)
	}
	config := row.Config.v.shown()
	if config == nil {
		return catalog.Config{}, "", nil
	}
	if len(config.Secrets) > 0 {
		if config.Secrets, err = openSecrets(s.secrets, serviceUID, row.Sealed); err != nil {
			return catalog.Config{}, "", err
		}
	}
	given, err := openGiven(s, serviceUID, row.Given)
	if err != nil {
		return catalog.Config{}, "", err
	}
	config = withGiven(config, given)
	config.References = config.ClusterReferences()
	return *config, row.Config.v.Digest, nil
}
