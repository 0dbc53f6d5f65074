// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

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
