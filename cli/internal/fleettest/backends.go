// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"slices"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// RefreshConfigBackend implements FleetService. Everything that is asked for is one entry.
func (h *Hub) RefreshConfigBackend(_ context.Context, request *fleetv1.RefreshConfigBackendRequest) (*fleetv1.RefreshConfigBackendResponse, error) {
	_, err := h.get("configbackend", request.GetName())
	return &fleetv1.RefreshConfigBackendResponse{Entries: 1}, err
}

// ExplainServiceConfig implements FleetService: every value is current.
func (h *Hub) ExplainServiceConfig(_ context.Context, request *fleetv1.ExplainServiceConfigRequest) (*fleetv1.ExplainServiceConfigResponse, error) {
	object, err := h.get("service", request.GetName())
	if err != nil {
		return nil, err
	}
	res := &fleetv1.ExplainServiceConfigResponse{}
	config := object.GetService().GetSpec().GetConfig()
	add := func(key, reference string, isSecret bool) {
		if request.GetKey() == "" || request.GetKey() == key {
			res.Keys = append(res.Keys, &fleetv1.ConfigExplanation{
				Key: key, Layer: "service", Reference: reference, Secret: isSecret, State: fleetv1.ConfigState_CONFIG_STATE_CURRENT,
			})
		}
	}
	for key := range config.GetValues() {
		add(key, "", false)
	}
	for key := range config.GetSecrets() {
		add(key, "", true)
	}
	for key, reference := range config.GetReferences() {
		add(key, reference, true)
	}
	slices.SortFunc(res.Keys, func(a, b *fleetv1.ConfigExplanation) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	return res, nil
}
