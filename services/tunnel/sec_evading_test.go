// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/services/tunnel"
)

// TestSecNoSessionEvadesItsRecording tries every way to a shell that recordings would not show, as
// a user with full access.
func TestSecNoSessionEvadesItsRecording(t *testing.T) {
	for _, required := range []bool{true, false} {
		h := startHub(t, func(cfg *tunnel.Config) { cfg.Record.Dir, cfg.Record.Required = t.TempDir(), required })
		h.access.grant("root", "demo", "leat:admins")
		var asked atomic.Int32
		h.agent("demo", func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(http.StatusAccepted)
		})
		c := client(t, false)
		for _, tc := range []struct {
			method, path, upgrade string
			evades                bool
		}{
			{"POST", "/api/v1/nodes/n/proxy/exec/ns/pod/c?command=sh&tty=1", "SPDY/3.1", true},
			{"GET", "/api/v1/nodes/n/proxy/exec/ns/pod/c?command=sh&tty=1", "websocket", true},
			{"GET", "/api/v1/nodes/https:n:10250/proxy/attach/ns/pod/c", "websocket", true},
			{"GET", "/api/v1/nodes/n/proxy//%65xec/ns/pod/c", "websocket", true},
			{"GET", "/api/v1/nodes/n/proxy/portForward/ns/pod", "websocket", true},
			{"POST", "/api/v1/nodes/n/proxy/run/ns/pod/c?cmd=id", "", true},
			{"POST", "/api/v1/nodes/n/proxy/%72un/ns/pod/c?cmd=id", "", true},
			{"POST", "/api/v1/nodes/n/proxy/run/ns/pod/c?cmd=id", "h2c", true},
			{"GET", "/api/v1/namespaces/ns/pods/p/proxy/shell", "websocket", true},
			{"GET", "/api/v1/namespaces/ns/services/s:80/proxy/shell", "websocket", true},
			{"GET", "/services/ns/s:80/shell", "websocket", true},
			{"GET", "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/vm/console", "websocket", true},
			{"GET", "/apis/metrics.k8s.io/v1/namespaces/ns/pods/p/exec", "websocket", true},
			{"GET", "/openapi/v2", "websocket", true},

			{"GET", "/api/v1/nodes/n/proxy/metrics", "", false},
			{"GET", "/api/v1/namespaces/ns/services/s:80/proxy/page", "", false},
			{"POST", "/api/v1/namespaces/ns/services/s:80/proxy/page", "", false},
			{"GET", "/api/v1/namespaces/ns/pods/p/portforward?ports=1", "websocket", false},
			{"GET", "/api/v1/namespaces/ns/pods/p/exec?command=id", "websocket", false},
			{"GET", "/api/v1/pods?watch=1", "websocket", false},
			{"GET", "/api/v1/namespaces/ns/pods/p/log?follow=1", "websocket", false},
		} {
			before := asked.Load()
			req := h.request(t.Context(), tc.method, "root", "demo", tc.path, nil)
			if tc.upgrade != "" {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", tc.upgrade)
			}
			res, body := h.do(c, req)
			refused := res.StatusCode == http.StatusForbidden && strings.Contains(body, "--tunnel-record-required")
			if reached := asked.Load() > before; refused != (tc.evades && required) || refused && reached {
				t.Errorf("%s %s, upgrade to %q, recordings required: %t: got %d %s, cluster asked: %t", tc.method, tc.path, tc.upgrade, required,
					res.StatusCode, body, reached)
			}
		}
	}
}
