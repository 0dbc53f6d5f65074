// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/tunnel"
)

// TestHeartbeatsComeBeforePings has intervals in which an agent would and would not send PINGs of
// its own. An interval that is too long is refused with an error that names the right choice.
func TestHeartbeatsComeBeforePings(t *testing.T) {
	t.Parallel()
	for value, refused := range map[string]bool{"": false, "0s": true, "1s": false, "19.999s": false, "20s": true, "1m": true} {
		var cfg tunnel.Config
		set := config.New("tunnel", func(name string) (string, bool) { return value, name == "LEAT_TUNNEL_HEARTBEAT_INTERVAL" })
		cfg.Bind(set)
		err := set.Parse([]string{"--distributor-url=http://d", "--service-secret=" + hubkeys.Secret(identity.ServiceTunnel), "--service-keys=" + strings.Join(hubkeys.List(), ",")})
		if (err != nil) != refused {
			t.Errorf("%q: got %v, want it refused: %t", value, err, refused)
			continue
		}
		for _, text := range []string{"--tunnel-heartbeat-interval: got ", "less than 20s"} {
			if refused && !strings.Contains(err.Error(), text) {
				t.Errorf("%q: got %v, want an error with %q", value, err, text)
			}
		}
	}
}
