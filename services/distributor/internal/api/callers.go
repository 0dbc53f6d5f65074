// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"slices"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// person returns the caller if it is a person, with the groups that it has now: a token may be an hour old.
func (s *Fleet) person(ctx context.Context) (identity.Identity, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindUser {
		return id, denied("only people may call this")
	}
	id, ok := s.d.View.AdmitPerson(ctx, id)
	if !ok {
		return id, tokenInvalid("the user, or the API token behind this one, has ended; obtain a new token")
	}
	return id, nil
}

// admin returns the caller if it is a person who may do everything.
func (s *Fleet) admin(ctx context.Context) (identity.Identity, error) {
	id, err := s.person(ctx)
	if err != nil {
		return id, err
	}
	if !isAdmin(id) {
		return id, errNotAdmin()
	}
	return id, nil
}

func errNotAdmin() error { return denied("you may not do this; ask an administrator for a binding") }

func isAdmin(id identity.Identity) bool { return slices.Contains(id.Groups, catalog.AdminGroup) }

// tunnel returns an error unless the caller is the hub's tunnel. The tunnel is the only service that asks which
// people may reach which cluster.
func tunnel(ctx context.Context) error {
	if id, _ := identity.FromContext(ctx); id.Kind != identity.KindService || id.Name != identity.ServiceTunnel {
		return denied("only the hub's tunnel may call this")
	}
	return nil
}

// agent returns the cluster whose agent calls, and when its token ends.
func (s *Distributor) agent(ctx context.Context) (*catalog.Cluster, identity.Identity, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindCluster {
		return nil, id, denied("only a cluster's agent may call this")
	}
	cluster, ok := s.d.View.Admit(ctx, id.Name, id.UID)
	if !ok {
		return nil, id, tokenInvalid("the cluster's identity has ended; obtain a new token")
	}
	return cluster, id, nil
}
