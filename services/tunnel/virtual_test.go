// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/tunnel"
)

// virtually runs a test with a whole hub in a bubble of testing/synctest: half an hour of it takes
// no time. The settings are the same as in production. There are no sockets, so that connections
// have no buffers of the kernel's.
func virtually(t *testing.T, change func(*tunnel.Config), test func(t *testing.T, h *hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(t)
		distributor := rpctest.Start(h.distributor())
		t.Cleanup(func() {
			if err := distributor.Close(); err != nil {
				t.Errorf("close distributor: %v", err)
			}
		})
		h.url, h.transport = rpctest.BaseURL, distributor.Transport()
		test(t, h.virtual(change))
	})
}

// virtual starts another replica in the bubble.
func (h *hub) virtual(change func(*tunnel.Config)) *hub {
	h.tb.Helper()
	another, pipes := *h, loopback.NewPipes()
	another.dial = pipes.Dial
	return another.replicaAt(pipes, func(cfg *tunnel.Config) {
		cfg.Serve.DrainTimeout = 25 * time.Second // the default
		cfg.DistributorTransport = h.transport
		if change != nil {
			change(cfg)
		}
	})
}
