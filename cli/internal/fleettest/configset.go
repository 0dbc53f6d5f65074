// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
)

// configSets is a ConfigSetService over the hub's documents.
type configSets struct {
	fleetv1connect.UnimplementedConfigSetServiceHandler
	hub *Hub
}

// GetConfigSet implements ConfigSetServiceHandler.
func (c configSets) GetConfigSet(_ context.Context, request *fleetv1.GetConfigSetRequest) (*fleetv1.GetConfigSetResponse, error) {
	object, err := c.hub.get("configset", request.GetName())
	return &fleetv1.GetConfigSetResponse{ConfigSet: withoutSecrets(object.GetConfigSet())}, err
}

// ListConfigSets implements ConfigSetServiceHandler, one object a page.
func (c configSets) ListConfigSets(_ context.Context, request *fleetv1.ListConfigSetsRequest) (*fleetv1.ListConfigSetsResponse, error) {
	all, next := paged(listOf(c.hub, "configset", request.GetProject(), (*fleetv1.Document).GetConfigSet), request.GetPage())
	for i, set := range all {
		all[i] = withoutSecrets(set)
	}
	return &fleetv1.ListConfigSetsResponse{ConfigSets: all, NextPageToken: next}, nil
}

// withoutSecrets returns a copy of a set with the keys of its secrets alone.
func withoutSecrets(set *fleetv1.ConfigSet) *fleetv1.ConfigSet {
	shown := proto.CloneOf(set)
	for key := range shown.GetSpec().GetConfig().GetSecrets() {
		shown.Spec.Config.Secrets[key] = ""
	}
	return shown
}

// DeleteConfigSet implements ConfigSetServiceHandler.
func (c configSets) DeleteConfigSet(_ context.Context, request *fleetv1.DeleteConfigSetRequest) (*fleetv1.DeleteConfigSetResponse, error) {
	return &fleetv1.DeleteConfigSetResponse{}, c.hub.remove("configset", request.GetName())
}
