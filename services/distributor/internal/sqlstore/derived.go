// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxDerivations bounds how often a configuration is derived again because its global service has changed
// in between.
const maxDerivations = 5

// errChanged means that a global service has changed since its expressions were evaluated.
var errChanged = errors.New("the global service has changed")

// Globals reads global services with their secrets.
type Globals struct{ Store *Store }

// GlobalService returns the global service with that uid, with its secrets. Error:
// *catalog.NotFoundError.
func (g Globals) GlobalService(ctx context.Context, uid string) (*catalog.GlobalService, error) {
	return storedGlobals.byUID(ctx, g.Store, uid)
}

// derivedMember is a derived service as it follows from one state of the database.
type derivedMember struct {
	*compose.Composition

	composer *compose.Composer
	service  *catalog.Service
	// isUnread is true if what back ends hold is not stored for the service yet.
	isUnread bool
}

// member derives a service of a cluster, as its project knows that, from the stored state, and
// calls use within the transaction that has read it. Expressions are evaluated before the
// transaction, because they may take long. Errors: *catalog.NotFoundError, catalog.ErrUnavailable.
func (g Globals) member(
	ctx context.Context, service *catalog.Service, cluster *catalog.Cluster, use func(ctx context.Context, t *tx, m derivedMember) error,
) error {
	for range maxDerivations {
		global, err := g.GlobalService(ctx, service.Derived.GlobalUID)
		if err != nil {
			return err
		}
		compiled, err := derive.Compile(global)
		if err != nil {
			return err
		}
		resolved, err := compiled.Resolve(ctx, &derive.Cluster{Seen: cluster})
		if err != nil {
			return fmt.Errorf("%w: %w", catalog.ErrUnavailable, err) // the agent keeps what it has
		}
		err = g.Store.opening(ctx, func(ctx context.Context) error {
			return g.Store.read(ctx, "read configuration", func(ctx context.Context, sqlTx bun.Tx) error {
				t := newTx(g.Store, sqlTx)
				isSame, err := t.sql.NewSelect().Table("global_services").
					Where("uid = ? AND resource_version = ?", global.UID, global.ResourceVersion).Exists(ctx)
				if err != nil {
					return err
				}
				if !isSame {
					return errChanged
				}
				c := newComposer(t)
				compiled.Use(derivedSets(ctx, c))
				m := derivedMember{composer: c, service: resolved.Derived(service.Derived.Matched).Service()}
				composed := resolved.Compose()
				if err := c.Err(); err != nil {
					return err
				}
				m.Composition = &compose.Composition{
					Service: &compose.Service{}, Layers: composed.Composed, Literals: composed.Literals(), References: composed.BackendReferences(),
				}
				m.Literals.Restart, m.Literals.References = composed.Restart, composed.ClusterReferences()
				if err := m.readVariant(ctx, t); err != nil {
					return err
				}
				return use(ctx, t, m)
			})
		})
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", catalog.ErrUnavailable, errChanged)
}

// readVariant adds what the service is given of back ends.
func (m *derivedMember) readVariant(ctx context.Context, t *tx) error {
	config := m.service.Derived.Config
	if config == nil {
		return nil
	}
	row := new(variantRow)
	err := t.sql.NewSelect().Model(row).Where("id = ? AND ended_at = 0", config.Variant.ID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		m.isUnread = true
		return nil
	}
	if err != nil {
		return translate("read variant", err)
	}
	m.service.ConfigDigest = derive.WithValues(config.Digest, row.Digest)
	m.Given, err = openValues(t.store.keys, variantValues, row.ID, row.Sealed)
	return err
}

// derivedSets returns projects and sets as derived services are composed of them. An error is the
// composer's.
func derivedSets(ctx context.Context, c *compose.Composer) derive.Sets {
	return derive.Sets{
		Version: 1,
		Project: func(name string) *catalog.Project { return c.Project(ctx, name) },
		Set:     func(path string) *catalog.ConfigSet { return c.Set(ctx, path) },
	}
}

// DerivedConfig implements fleet.DerivedConfigs. A configuration at which a rollout holds the service is served
// even if the global service cannot be derived now.
func (g Globals) DerivedConfig(
	ctx context.Context, service *catalog.Service, cluster *catalog.Cluster,
) (config catalog.Config, digest string, err error) {
	isHeld := false
	err = g.Store.opening(ctx, func(ctx context.Context) error {
		return g.Store.read(ctx, "read configuration", func(ctx context.Context, sqlTx bun.Tx) error {
			config, digest, isHeld, err = g.held(ctx, newTx(g.Store, sqlTx), service.UID, service.ConfigName)
			return err
		})
	})
	if err != nil || isHeld {
		return config, digest, err
	}
	err = g.member(ctx, service, cluster, func(ctx context.Context, t *tx, m derivedMember) error {
		// The global service may have been edited since the caller looked.
		if config, digest, isHeld, err = g.held(ctx, t, service.UID, m.service.ConfigName); err != nil || isHeld {
			return err
		}
		if m.isUnread {
			return fmt.Errorf("%w: the values of back ends are not read yet", catalog.ErrUnavailable)
		}
		config, digest = catalog.Config{}, m.service.ConfigDigest
		if digest != "" {
			config = *compose.WithGiven(m.Literals, m.Given)
		}
		return nil
	})
	return config, digest, err
}

// ExplainDerived is Explain for a derived service.
func (e *Entries) ExplainDerived(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) (all []configs.Explained, err error) {
	err = Globals{e.store}.member(ctx, service, cluster, func(ctx context.Context, _ *tx, m derivedMember) error {
		all, err = m.composer.Explain(ctx, m.Composition)
		return err
	})
	return all, err
}

// ShownDerived is Shown for a derived service.
func (e *Entries) ShownDerived(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) (config *catalog.Config, err error) {
	err = Globals{e.store}.member(ctx, service, cluster, func(ctx context.Context, t *tx, m derivedMember) error {
		name, held, err := admittedConfig(ctx, t.sql, t.store.keys, service.UID)
		switch {
		case err != nil:
			return err
		case name == "" || name == m.service.ConfigName:
			config = m.Staged().Shown()
		case held != nil:
			config = held.Shown()
		}
		return nil
	})
	return config, err
}
