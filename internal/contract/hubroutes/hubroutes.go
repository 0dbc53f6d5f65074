// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hubroutes lists the paths at which a hub is reached from outside, and the service behind
// each. Whatever stands in front of a hub leads by this list: the front of leat up by the code below,
// and the nginx of docker-compose.yml and the routes of the chart by files that tests compare with it.
// A path that is not in the list is not reached from outside, such as the calls of services to one
// another.
package hubroutes

import (
	"path"
	"strings"
)

// Service is a service of the hub that callers outside of it reach.
type Service string

// The services.
const (
	Distributor Service = "distributor"
	GitCache    Service = "gitcache"
	Tunnel      Service = "tunnel"
)

// Route is a path and everything below it, or, if IsExact, the path alone.
type Route struct {
	Path    string
	IsExact bool
	Service Service
}

// All returns the routes. Of two that fit a path, the longer one counts.
func All() []Route {
	var all []Route
	for _, part := range []struct {
		service Service
		paths   []string
	}{
		{Distributor, []string{
			// people
			"/leat.fleet.v1.AccessRequestService", "/leat.fleet.v1.BootstrapService", "/leat.fleet.v1.FleetService", "/leat.fleet.v1.FleetSourceService", "/leat.fleet.v1.GlobalServiceService", "/leat.fleet.v1.ImagePolicyService",
			"/leat.fleet.v1.KeyService", "/leat.fleet.v1.NotifierService", "/leat.fleet.v1.QueryService", "/leat.fleet.v1.RolloutService",
			"/leat.fleet.v1.SessionService", "/oauth/token", "/.well-known/jwks.json",
			// browsers
			"/ui", "/login", "/device",
			// agents, and back ends of configuration
			"/leat.distributor.v1.DistributorService", "/v1/bundles", "/webhooks/config",
		}},
		{Tunnel, []string{"/clusters", "/tunnel/v1/connect", "/leat.tunnel.v1.TunnelService"}},
		{GitCache, []string{"/webhooks"}},
	} {
		for _, path := range part.paths {
			all = append(all, Route{Path: path, Service: part.service})
		}
	}
	return append(all, Route{Path: "/", IsExact: true, Service: Distributor})
}

// Lead returns the service that answers a path, whose escapes are decoded; false means that none
// does. A path with dots between its slashes is one with another spelling: what it names counts.
func Lead(requested string) (Service, bool) {
	if !strings.HasPrefix(requested, "/") {
		return "", false
	}
	cleaned := path.Clean(requested)
	var longest Route
	for _, route := range All() {
		fits := cleaned == route.Path || !route.IsExact && strings.HasPrefix(cleaned, route.Path+"/")
		if fits && len(route.Path) > len(longest.Path) {
			longest = route
		}
	}
	return longest.Service, longest.Path != ""
}
