// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"slices"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/authz"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// CreateUser implements FleetService.
func (s *Service) CreateUser(ctx context.Context, req *fleetv1.CreateUserRequest) (*fleetv1.CreateUserResponse, error) {
	record, err := s.create(ctx)(userOf(req.GetUser()))
	return &fleetv1.CreateUserResponse{User: messageOf[*fleetv1.User](record)}, err
}

// GetUser implements FleetService.
func (s *Service) GetUser(ctx context.Context, req *fleetv1.GetUserRequest) (*fleetv1.GetUserResponse, error) {
	record, err := s.get(ctx, catalog.KindUser, req.GetName())
	return &fleetv1.GetUserResponse{User: messageOf[*fleetv1.User](record)}, err
}

// ListUsers implements FleetService.
func (s *Service) ListUsers(ctx context.Context, req *fleetv1.ListUsersRequest) (*fleetv1.ListUsersResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindUser}, req.GetPage())
	return &fleetv1.ListUsersResponse{Users: wire.Each(records, messageOf[*fleetv1.User]), NextPageToken: next}, err
}

// UpdateUser implements FleetService.
func (s *Service) UpdateUser(ctx context.Context, req *fleetv1.UpdateUserRequest) (*fleetv1.UpdateUserResponse, error) {
	record, err := s.update(ctx)(userOf(req.GetUser()))
	return &fleetv1.UpdateUserResponse{User: messageOf[*fleetv1.User](record)}, err
}

// DeleteUser implements FleetService.
func (s *Service) DeleteUser(ctx context.Context, req *fleetv1.DeleteUserRequest) (*fleetv1.DeleteUserResponse, error) {
	return &fleetv1.DeleteUserResponse{}, s.delete(ctx, catalog.KindUser, req.GetName())
}

// CreateAccessBinding implements FleetService.
func (s *Service) CreateAccessBinding(ctx context.Context, req *fleetv1.CreateAccessBindingRequest) (*fleetv1.CreateAccessBindingResponse, error) {
	record, err := s.create(ctx)(bindingOf(req.GetAccessBinding()))
	return &fleetv1.CreateAccessBindingResponse{AccessBinding: messageOf[*fleetv1.AccessBinding](record)}, err
}

// GetAccessBinding implements FleetService.
func (s *Service) GetAccessBinding(ctx context.Context, req *fleetv1.GetAccessBindingRequest) (*fleetv1.GetAccessBindingResponse, error) {
	record, err := s.get(ctx, catalog.KindAccessBinding, req.GetName())
	return &fleetv1.GetAccessBindingResponse{AccessBinding: messageOf[*fleetv1.AccessBinding](record)}, err
}

// ListAccessBindings implements FleetService.
func (s *Service) ListAccessBindings(ctx context.Context, req *fleetv1.ListAccessBindingsRequest) (*fleetv1.ListAccessBindingsResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindAccessBinding}, req.GetPage())
	return &fleetv1.ListAccessBindingsResponse{AccessBindings: wire.Each(records, messageOf[*fleetv1.AccessBinding]), NextPageToken: next}, err
}

// UpdateAccessBinding implements FleetService.
func (s *Service) UpdateAccessBinding(ctx context.Context, req *fleetv1.UpdateAccessBindingRequest) (*fleetv1.UpdateAccessBindingResponse, error) {
	record, err := s.update(ctx)(bindingOf(req.GetAccessBinding()))
	return &fleetv1.UpdateAccessBindingResponse{AccessBinding: messageOf[*fleetv1.AccessBinding](record)}, err
}

// DeleteAccessBinding implements FleetService.
func (s *Service) DeleteAccessBinding(ctx context.Context, req *fleetv1.DeleteAccessBindingRequest) (*fleetv1.DeleteAccessBindingResponse, error) {
	return &fleetv1.DeleteAccessBindingResponse{}, s.delete(ctx, catalog.KindAccessBinding, req.GetName())
}

// CreateToken implements FleetService.
func (s *Service) CreateToken(ctx context.Context, req *fleetv1.CreateTokenRequest) (*fleetv1.CreateTokenResponse, error) {
	c, err := s.atHub(ctx)
	if err != nil {
		return nil, err
	}
	if err := catalog.ValidateName("user", req.GetUser()); err != nil {
		return nil, wire.Error(err)
	}
	// Who holds a token of somebody can do all that they can.
	if user, ok := s.d.View.User(req.GetUser()); ok && user.Name != c.Name {
		if err := c.rights.MayBecome(s.d.View.Rights(user.Name, user.Spec.Groups)); err != nil {
			return nil, wire.Error(err)
		}
	}
	if err := catalog.ValidateTokenLabel(req.GetLabel()); err != nil {
		return nil, wire.Error(err)
	}
	expires := catalogwire.TimeOf(req.GetExpireTime())
	if req.GetExpireTime() != nil && (req.GetExpireTime().CheckValid() != nil || !expires.After(time.Now())) {
		return nil, rpcerr.Field("expire_time", "is not in the future")
	}
	secret := admission.NewAPIToken()
	token, err := s.d.People.CreateToken(ctx, req.GetUser(), req.GetLabel(), admission.Hash(secret), expires)
	if err != nil {
		return nil, wire.Error(err)
	}
	s.follow(ctx)
	return &fleetv1.CreateTokenResponse{Token: tokenMessage(token), Secret: secret}, nil
}

// ListTokens implements FleetService. A page's token is the place of its last item in the order.
func (s *Service) ListTokens(ctx context.Context, req *fleetv1.ListTokensRequest) (*fleetv1.ListTokensResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	user := req.GetUser()
	if !c.rights.Allows(c.needs(), authz.Object{}) {
		if user != "" && user != c.Name {
			return nil, wire.Error(&authz.DeniedError{Permission: c.needs()})
		}
		user = c.Name
	}
	after, limit, err := pageOf(req.GetPage())
	if err != nil {
		return nil, err
	}
	tokens, err := s.d.People.ListTokens(ctx, user)
	if err != nil {
		return nil, wire.Error(err)
	}
	tokens = slices.DeleteFunc(tokens, func(t catalog.Token) bool { return placeOf(t) <= after })
	slices.SortFunc(tokens, func(a, b catalog.Token) int { return strings.Compare(placeOf(a), placeOf(b)) })
	res := &fleetv1.ListTokensResponse{}
	if len(tokens) > limit {
		tokens = tokens[:limit]
		res.NextPageToken = pageToken(placeOf(tokens[limit-1]))
	}
	res.Tokens = wire.Each(tokens, tokenMessage)
	return res, nil
}

func placeOf(t catalog.Token) string { return t.User + "\x00" + t.Label + "\x00" + t.ID }

// DeleteToken implements FleetService.
func (s *Service) DeleteToken(ctx context.Context, req *fleetv1.DeleteTokenRequest) (*fleetv1.DeleteTokenResponse, error) {
	if _, err := s.atHub(ctx); err != nil {
		return nil, err
	}
	if req.GetId() == "" {
		return nil, rpcerr.Field("id", "is required")
	}
	if err := s.d.People.DeleteToken(ctx, req.GetId()); err != nil {
		return nil, wire.Error(err)
	}
	s.follow(ctx)
	return &fleetv1.DeleteTokenResponse{}, nil
}
