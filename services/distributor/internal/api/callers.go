// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// person returns the caller if it is a person, with the groups that it has now: a token may be an hour old.
func (s *Fleet) person(ctx context.Context) (identity.Identity, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindUser {
		return id, denied("only people may call this")
	}
	id, ok := current(ctx, s.d.View, id)
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

// current returns the person with the groups of now. ok is false for a user that was deleted, even if there is another one of the
// name by now, and for what was given for an API token that has ended. Who has no uid is nobody whom the hub knows itself: their
// token alone says who they are.
func current(ctx context.Context, view *fleet.View, id identity.Identity) (now identity.Identity, ok bool) {
	if id.UID == "" {
		return id, true
	}
	if now, ok = lives(view, id); ok {
		return now, true
	}
	// Another replica may have made the user or the token just now.
	view.Look(ctx)
	return lives(view, id)
}

func lives(view *fleet.View, id identity.Identity) (identity.Identity, bool) {
	user, ok := view.User(id.Name)
	if !ok || user.UID != id.UID {
		return id, false
	}
	if token, ok := admission.APITokenOf(id.Credential); ok && !view.TokenLives(token, id.UID, time.Now()) {
		return id, false
	}
	id.Groups = user.Spec.Groups
	return id, true
}

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
