// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// bootstraps is a BootstrapService that keeps tokens and refuses enrolment.
type bootstraps struct {
	fleetv1connect.UnimplementedBootstrapServiceHandler

	mu     sync.Mutex
	made   int
	tokens []*fleetv1.BootstrapToken
}

// CreateBootstrapToken implements BootstrapServiceHandler.
func (b *bootstraps) CreateBootstrapToken(_ context.Context, request *fleetv1.CreateBootstrapTokenRequest) (*fleetv1.CreateBootstrapTokenResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if request.GetNamePrefix() == "" {
		return nil, rpcerr.Field("name_prefix", "is required")
	}
	if request.GetMaxUses() < 0 {
		return nil, rpcerr.Field("max_uses", "must be between 1 and 10000")
	}
	b.made++
	token := &fleetv1.BootstrapToken{
		Id: fmt.Sprintf("%016x", b.made), Project: cmp.Or(request.GetProject(), "default"), NamePrefix: request.GetNamePrefix(),
		Labels: request.GetLabels(), Description: request.GetDescription(), MaxUses: cmp.Or(request.GetMaxUses(), 100), CreatedBy: "user:admin",
		CreateTime: timestamppb.Now(), ExpireTime: request.GetExpireTime(),
	}
	if token.ExpireTime == nil {
		token.ExpireTime = timestamppb.New(time.Now().Add(24 * time.Hour))
	}
	b.tokens = append(b.tokens, token)
	return &fleetv1.CreateBootstrapTokenResponse{Token: token, Secret: "leatboot_" + token.GetId()}, nil
}

// ListBootstrapTokens implements BootstrapServiceHandler, one token a page.
func (b *bootstraps) ListBootstrapTokens(_ context.Context, request *fleetv1.ListBootstrapTokensRequest) (*fleetv1.ListBootstrapTokensResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tokens, next := paged(slices.Clone(b.tokens), request.GetPage())
	return &fleetv1.ListBootstrapTokensResponse{Tokens: tokens, NextPageToken: next}, nil
}

// RevokeBootstrapToken implements BootstrapServiceHandler.
func (b *bootstraps) RevokeBootstrapToken(_ context.Context, request *fleetv1.RevokeBootstrapTokenRequest) (*fleetv1.RevokeBootstrapTokenResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(b.tokens), func(t *fleetv1.BootstrapToken) bool { return t.GetId() == request.GetId() })
	if len(left) == len(b.tokens) {
		return nil, rpcerr.NotFound("bootstraptoken", request.GetId())
	}
	b.tokens = left
	return &fleetv1.RevokeBootstrapTokenResponse{}, nil
}
