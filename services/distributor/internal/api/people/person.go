// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// person returns the caller, with the groups and the rights that they have now: a token may be an
// hour old. The server admits only people to these calls.
func (s *Service) person(ctx context.Context) (*caller, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindUser {
		return nil, wire.Denied("only people may make this call")
	}
	person, ok, err := s.d.View.AdmitPerson(ctx, id)
	if err != nil {
		return nil, wire.Error(err)
	}
	if !ok {
		return nil, wire.TokenInvalid("the user, or the API token behind this one, has ended; obtain a new token")
	}
	s.noteUse(ctx, person.Identity())
	return &caller{
		Identity: person.Identity(), person: person, view: s.d.View, rights: s.d.View.Accounts().Rights(person), access: permission.OfCall(ctx),
	}, nil
}

// noteUse notices that the API token behind the call is in use.
func (s *Service) noteUse(ctx context.Context, id identity.Identity) {
	from := ""
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		from = call.Peer().Addr
	}
	s.d.Uses.Note(id, from)
}

// atHub returns an error unless the caller has the call's permission for the hub as a whole.
func (s *Service) atHub(ctx context.Context) error {
	c, err := s.person(ctx)
	if err != nil {
		return err
	}
	if !c.rights.Allows(c.needs(), authz.Object{}) {
		return wire.Error(c.rights.Denied(c.needs(), catalog.Key{}))
	}
	return nil
}
