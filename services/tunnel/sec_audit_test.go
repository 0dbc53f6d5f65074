// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestSecNobodyFillsTheAuditLog has a user without access make large requests. The log must stay
// small, and its last records must account for every request.
func TestSecNobodyFillsTheAuditLog(t *testing.T) {
	const requests = 300
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", echo)
	c := client(t, false)
	for range requests {
		req := h.request(t.Context(), http.MethodGet, "eve", "demo", "/api/v1/pods?fieldSelector="+strings.Repeat("%22", 9000), nil)
		req.Header.Set("User-Agent", strings.Repeat("<", 20_000))
		if res, _ := h.do(c, req); res.StatusCode != http.StatusForbidden {
			t.Fatalf("got %d, want 403", res.StatusCode)
		}
	}
	if got := len(h.audit.String()); got > 100*16<<10 {
		t.Errorf("got an audit log of %d bytes from %d refused requests, want at most 16 KiB of each of the first", got, requests)
	}
	if status, _ := h.get(c, "ada", "demo", "/api"); status != http.StatusOK {
		t.Errorf("got %d for somebody else, want 200", status)
	}
	h.stop()
	h.done <- <-h.done // put back for the cleanup
	count := 0
	for _, record := range h.audit.records(t) {
		switch {
		case record["phase"] == "summary":
			if n, ok := record["count"].(float64); ok {
				count += int(n)
			}
		case record["subject"] == "user:eve":
			count++
		}
	}
	if count != requests {
		t.Errorf("got %d refused requests accounted for, want %d", count, requests)
	}
}
