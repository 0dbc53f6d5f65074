// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
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
	// Digest is that of all layers; empty: none of them holds anything.
	Digest string `json:"digest"`
	// Name and Held are ConfigName and HeldConfig of catalog.Service. Without a digest there is no name.
	Name   string              `json:"name,omitempty"`
	Held   *catalog.HeldConfig `json:"held,omitempty"`
	Values map[string]string   `json:"values,omitempty"`
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

// configOf returns what is stored of the configuration in a service's own document. Its digest and its
// problem are made of all layers; see settle.
func configOf(config *catalog.Config) configColumn {
	if config.Empty() {
		return configColumn{}
	}
	return configColumn{
		Values: config.Values, Secrets: slices.Sorted(maps.Keys(config.Secrets)), References: config.References, Restart: config.Restart,
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

// shown returns what anybody may see of the document's own configuration, or nil for an absent one.
func (c configColumn) shown() *catalog.Config {
	if len(c.Values)+len(c.Secrets)+len(c.References) == 0 && !c.Restart {
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
	sealed, err := sealSecrets(t.store.secrets, service.UID, service.Spec.Config.Secrets)
	if err != nil {
		return err
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
	service.Spec.Config.Secrets, err = openSecrets(t.store.secrets, "service", service.UID, sealed.Sealed)
	return service, err
}

// openSecrets is the reverse of sealSecrets. Errors name the holder of the secrets.
func openSecrets(sealer *seal.Sealer, holder, uid string, sealed []byte) (map[string]secret.Text, error) {
	text, err := sealer.Open(sealed, []byte(uid))
	if err != nil {
		return nil, fmt.Errorf("open secrets of %s with uid %s: %w", holder, uid, err)
	}
	var plain map[string]string
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, fmt.Errorf("decode secrets of %s with uid %s", holder, uid)
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
		return s.read(ctx, "read configuration", func(ctx context.Context, sqlTx bun.Tx) error {
			config, digest, err = readConfig(ctx, newTx(s, sqlTx), serviceUID)
			return err
		})
	})
	return config, digest, err
}

// readConfig composes the configuration that a service is planned with. The transaction sees one state, in
// which digest, values and secrets belong together.
func readConfig(ctx context.Context, t *tx, serviceUID string) (catalog.Config, string, error) {
	all, err := newComposer(t).compose(ctx, []string{serviceUID})
	if err != nil || len(all) == 0 {
		return catalog.Config{}, "", err
	}
	return all[0].planned()
}
