// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

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
	*composition

	service *catalog.Service
	// isUnread is true if what back ends hold is not stored for the service yet.
	isUnread bool
}

// member derives a service of a cluster, as its project knows that, from the stored state, and
// calls use within the transaction that has read it. Expressions are evaluated before the
// transaction, because they may take long. Errors: *catalog.NotFoundError, catalog.ErrUnavailable.
func (g Globals) member(
	ctx context.Context, service *catalog.Service, cluster *catalog.Cluster, use func(ctx context.Context, c *composer, m derivedMember) error,
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
				compiled.Use(c.derivedSets(ctx))
				m := derivedMember{service: resolved.Derived(service.Derived.Matched).Service()}
				composed := resolved.Compose()
				if c.err != nil {
					return c.err
				}
				m.composition = &composition{Composed: composed.Composed, literals: composed.Literals(), references: composed.BackendReferences()}
				m.literals.Restart, m.literals.References = composed.Restart, composed.ClusterReferences()
				if err := m.readVariant(ctx, t); err != nil {
					return err
				}
				return use(ctx, c, m)
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
	m.given, err = openValues(t.store, variantValues, row.ID, row.Sealed)
	return err
}

// derivedSets returns projects and sets as derived services are composed of them. An error is the
// composer's.
func (c *composer) derivedSets(ctx context.Context) derive.Sets {
	return derive.Sets{
		Version: 1,
		Project: func(name string) *catalog.Project {
			project, err := c.project(ctx, name)
			c.err = errors.Join(c.err, err)
			return project
		},
		Set: func(path string) *catalog.ConfigSet { return c.set(ctx, path) },
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
	err = g.member(ctx, service, cluster, func(ctx context.Context, c *composer, m derivedMember) error {
		// The global service may have been edited since the caller looked.
		if config, digest, isHeld, err = g.held(ctx, c.t, service.UID, m.service.ConfigName); err != nil || isHeld {
			return err
		}
		if m.isUnread {
			return fmt.Errorf("%w: the values of back ends are not read yet", catalog.ErrUnavailable)
		}
		config, digest = catalog.Config{}, m.service.ConfigDigest
		if digest != "" {
			config = *withGiven(m.literals, m.given)
		}
		return nil
	})
	return config, digest, err
}

// ExplainDerived is Explain for a derived service.
func (e *Entries) ExplainDerived(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) (all []configs.Explained, err error) {
	err = Globals{e.store}.member(ctx, service, cluster, func(ctx context.Context, c *composer, m derivedMember) error {
		all, err = explain(ctx, c, m.composition)
		return err
	})
	return all, err
}

// ShownDerived is Shown for a derived service.
func (e *Entries) ShownDerived(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) (config *catalog.Config, err error) {
	err = Globals{e.store}.member(ctx, service, cluster, func(ctx context.Context, c *composer, m derivedMember) error {
		name, held, err := admittedConfig(ctx, c.t, service.UID)
		switch {
		case err != nil:
			return err
		case name == "" || name == m.service.ConfigName:
			config = shown(m.literals, m.references)
		case held != nil:
			config = shown(held.literals, held.References)
		}
		return nil
	})
	return config, err
}
