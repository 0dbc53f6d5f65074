// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hubroutes_test

import (
	"testing"

	"github.com/leatdev/leat/internal/contract/hubroutes"
)

// TestSecRoutesLeadNowhereElse asks for paths of every service, of none, and for those of calls
// between services in other spellings.
func TestSecRoutesLeadNowhereElse(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]hubroutes.Service{
		"/": hubroutes.Distributor, "/ui": hubroutes.Distributor, "/ui/": hubroutes.Distributor, "/ui/problems": hubroutes.Distributor, "/uix": "",
		"/login/callback": hubroutes.Distributor, "/device": hubroutes.Distributor, "/v1/bundles/sha256:00": hubroutes.Distributor,
		"/leat.fleet.v1.FleetService/Get": hubroutes.Distributor, "/leat.fleet.v1.FleetServiceX/Get": "", "/oauth/token": hubroutes.Distributor, "/oauth": "",
		"/webhooks/config/vault": hubroutes.Distributor, "/webhooks/configs": hubroutes.GitCache, "/webhooks/github/shop": hubroutes.GitCache,
		"/clusters/berlin/api/v1/pods": hubroutes.Tunnel, "/tunnel/v1/connect": hubroutes.Tunnel, "/tunnel/v1/hop/x": "", "/tunnel": "",
		"/leat.tunnel.v1.TunnelService/Connect": hubroutes.Tunnel,
		"/leat.gitcache.v1.GitCacheService/Get": "", "/leat.distributor.v1.AccessService/CheckAccess": "", "/metrics": "", "/healthz": "", "/readyz": "",
		"/v1/bundles/../../leat.gitcache.v1.GitCacheService/Get": "", "//leat.gitcache.v1.GitCacheService/Get": "", "/ui/../metrics": "", "": "", "metrics": "", "*": "",
		"/clusters/../ui/": hubroutes.Distributor, "//": hubroutes.Distributor,
	} {
		got, ok := hubroutes.Lead(path)
		if got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", path, got, ok, want)
		}
	}
}
