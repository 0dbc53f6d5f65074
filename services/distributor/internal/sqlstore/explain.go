// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Explain returns where the values of a service's configuration come from, by key. A service that
// does not exist has none.
func (e *Entries) Explain(ctx context.Context, serviceUID string) (all []configs.Explained, err error) {
	err = e.store.opening(ctx, func(ctx context.Context) error {
		return e.store.read(ctx, "explain configuration", func(ctx context.Context, tx bun.Tx) error {
			c := newComposer(newTx(e.store, tx))
			found, err := c.Compose(ctx, []string{serviceUID})
			if err != nil || len(found) == 0 {
				return err
			}
			all, err = c.Explain(ctx, found[0])
			return err
		})
	})
	return all, err
}

// Shown returns what anybody may see of the configuration that a service is planned with: values, the keys of
// secrets, and references to back ends, of all layers together. A service without a configuration has none.
func (e *Entries) Shown(ctx context.Context, serviceUID string) (config *catalog.Config, err error) {
	err = e.store.opening(ctx, func(ctx context.Context) error {
		return e.store.read(ctx, "read configuration", func(ctx context.Context, tx bun.Tx) error {
			config = nil
			found, err := newComposer(newTx(e.store, tx)).Compose(ctx, []string{serviceUID})
			if err == nil && len(found) > 0 {
				config = found[0].Shown()
			}
			return err
		})
	})
	return config, err
}

// Status returns the state of the reads of all back ends that services refer to, by uid.
func (e *Entries) Status(ctx context.Context) (map[string]configs.Status, error) {
	var rows []*entryRow
	err := e.store.db.NewSelect().Model(&rows).ExcludeColumn("sealed").
		Where(isReferredTo("ce")).Order("tried_at", "id").Scan(ctx)
	if err != nil {
		return nil, translate("read states of configuration back ends", err)
	}
	all := map[string]configs.Status{}
	for _, row := range rows {
		s := all[row.BackendUID]
		s.Entries++
		if at := timeOf(row.ReadAt); at.After(s.ReadAt) {
			s.ReadAt = at
		}
		if f := row.Failure.v; f.Message != "" {
			s.Failing++
			since := timeOf(f.Since)
			if s.Problem != nil && (since.IsZero() || !s.Problem.Since.IsZero() && s.Problem.Since.Before(since)) {
				since = s.Problem.Since
			}
			s.Problem = &catalog.Problem{Reason: reason.ConfigStale, Message: row.Path + ": " + f.Message, Since: since}
			if f.IsRefused {
				s.Problem.Reason = reason.ConfigMissing
			}
		}
		all[row.BackendUID] = s
	}
	return all, nil
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
	all, err := newComposer(t).Compose(ctx, []string{serviceUID})
	if err != nil || len(all) == 0 {
		return catalog.Config{}, "", err
	}
	return all[0].Planned()
}
