// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
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
