// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestSecOneViewerLeavesRoomForOthers has one person begin and leave watches with a new selector
// each time, once or twice each, so that the latter are shared. The cluster must always have room
// for another user.
func TestSecOneViewerLeavesRoomForOthers(t *testing.T) {
	for name, viewers := range map[string]int{"alone": 1, "with themselves": 2} {
		t.Run(name, func(t *testing.T) {
			h := startHub(t, func(cfg *tunnel.Config) { cfg.MaxStreamsPerUser, cfg.MaxStreamsPerCluster = 20, 50 })
			h.access.grant("eve", "demo", "leat:viewers")
			h.access.grant("root", "demo", "leat:admins")
			h.agentWith(agenttest.Options{ID: "c", MaxStreams: 1000, Handler: &watched{}}, "demo")
			churning, other := client(t, true), client(t, true)
			refused := 0
			for i := range 150 {
				ctx, leave := context.WithCancel(t.Context())
				for range viewers {
					path := fmt.Sprintf("%s&labelSelector=n%%3D%d", sharedPods, i)
					res, err := churning.Do(h.request(ctx, http.MethodGet, "eve", "demo", path, nil))
					if err != nil {
						t.Fatal(err)
					}
					if res.StatusCode == http.StatusTooManyRequests {
						refused++
					} else if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
						t.Fatalf("watch %d: %v", i, err)
					}
					defer func() { _ = res.Body.Close() }()
				}
				leave()
				if status, body := h.get(other, "root", "demo", "/api"); status != http.StatusOK {
					t.Fatalf("after %d watches of somebody else: got %d %s, want 200", i+1, status, body)
				}
			}
			t.Logf("%d of the watches were refused", refused)
		})
	}
}
