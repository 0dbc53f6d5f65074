// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// CreateToken implements FleetService. Secrets are numbered.
func (h *Hub) CreateToken(_ context.Context, request *fleetv1.CreateTokenRequest) (*fleetv1.CreateTokenResponse, error) {
	if _, err := h.get("user", request.GetUser()); err != nil {
		return nil, err
	}
	if request.GetLabel() == "" {
		return nil, rpcerr.Field("label", "is required: say what the token is for")
	}
	expires := request.GetExpireTime()
	if expires == nil {
		expires = timestamppb.New(time.Now().Add(90 * 24 * time.Hour))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id := fmt.Sprintf("id%d", len(h.apiTokens)+1)
	token := &fleetv1.Token{
		Id: id, User: request.GetUser(), Label: request.GetLabel(), CreateTime: timestamppb.Now(), ExpireTime: expires,
		Limit: request.GetLimit(), CreatedBy: "user:admin",
	}
	h.apiTokens = append(h.apiTokens, token)
	return &fleetv1.CreateTokenResponse{Token: token, Secret: "leat_secret-of-" + id}, nil
}

// ListTokens implements FleetService. It returns one token a page.
func (h *Hub) ListTokens(_ context.Context, request *fleetv1.ListTokensRequest) (*fleetv1.ListTokensResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	others := func(t *fleetv1.Token) bool { return request.GetUser() != "" && request.GetUser() != t.GetUser() }
	tokens, next := paged(slices.DeleteFunc(slices.Clone(h.apiTokens), others), request.GetPage())
	return &fleetv1.ListTokensResponse{Tokens: tokens, NextPageToken: next}, nil
}

// DeleteToken implements FleetService.
func (h *Hub) DeleteToken(_ context.Context, request *fleetv1.DeleteTokenRequest) (*fleetv1.DeleteTokenResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.apiTokens)
	h.apiTokens = slices.DeleteFunc(h.apiTokens, func(t *fleetv1.Token) bool { return t.GetId() == request.GetId() })
	if len(h.apiTokens) == before {
		return nil, rpcerr.NotFound("token", request.GetId())
	}
	return &fleetv1.DeleteTokenResponse{}, nil
}

// ReviewAccess implements FleetService: everybody may read, by one binding, and do nothing else.
func (h *Hub) ReviewAccess(_ context.Context, request *fleetv1.ReviewAccessRequest) (*fleetv1.ReviewAccessResponse, error) {
	if request.GetCluster() == "" {
		return &fleetv1.ReviewAccessResponse{
			Allowed: true, User: "admin", Reason: "asked about admin in the hub",
			Permissions: []*optionsv1.Permission{{Verb: "get", Resource: "services"}, {Verb: "sync", Resource: "services"}},
		}, nil
	}
	if _, err := h.get("cluster", request.GetCluster()); err != nil {
		return nil, err
	}
	user, attributes := request.GetUser(), request.GetAttributes()
	user = cmp.Or(user, "admin")
	response := &fleetv1.ReviewAccessResponse{
		Allowed: true, User: user, Reason: fmt.Sprintf("asked about %s: %s %s %s %s %s", user, attributes.GetVerb(), attributes.GetApiGroup(),
			attributes.GetResource(), attributes.GetNamespace(), attributes.GetNonResourcePath()),
		Reasons: []*fleetv1.AccessReason{{
			Binding: "look", Subjects: []string{"user:" + user}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Groups: []string{"leat:viewers"},
			Rules: []*typev1.AccessRule{{Verbs: []string{"get", "list"}, Resources: []string{"pods"}}},
		}},
	}
	if verb := attributes.GetVerb(); verb != "" && verb != "get" && verb != "list" {
		response.Allowed, response.Reasons = false, nil
	}
	return response, nil
}
