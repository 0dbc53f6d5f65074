// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// GetTrustRule implements FleetService.
func (h *Hub) GetTrustRule(_ context.Context, request *fleetv1.GetTrustRuleRequest) (*fleetv1.GetTrustRuleResponse, error) {
	object, err := h.get("trustrule", request.GetName())
	return &fleetv1.GetTrustRuleResponse{TrustRule: object.GetTrustRule()}, err
}

// ListTrustRules implements FleetService, one object a page.
func (h *Hub) ListTrustRules(_ context.Context, request *fleetv1.ListTrustRulesRequest) (*fleetv1.ListTrustRulesResponse, error) {
	rules, next := paged(listOf(h, "trustrule", "", (*fleetv1.Document).GetTrustRule), request.GetPage())
	return &fleetv1.ListTrustRulesResponse{TrustRules: rules, NextPageToken: next}, nil
}

// DeleteTrustRule implements FleetService.
func (h *Hub) DeleteTrustRule(_ context.Context, request *fleetv1.DeleteTrustRuleRequest) (*fleetv1.DeleteTrustRuleResponse, error) {
	return &fleetv1.DeleteTrustRuleResponse{}, h.remove("trustrule", request.GetName())
}
