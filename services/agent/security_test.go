// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/localkube"
	"github.com/leatdev/leat/internal/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent"
)

// audited is a record of an API server's audit log.
type audited struct {
	User             struct{ Username string }
	ImpersonatedUser *struct {
		Username string
		Groups   []string
	}
	RequestURI string
	SourceIPs  []string
}

// auditLog returns the audit records of a real API server about requests for a path.
func auditLog(t *testing.T, cp *localkube.ControlPlane, path string) (records []audited) {
	t.Helper()
	content, err := os.ReadFile(cp.AuditLogPath())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var record audited
		if json.Unmarshal([]byte(line), &record) == nil && strings.HasPrefix(record.RequestURI, path) {
			records = append(records, record)
		}
	}
	return records
}

// TestSecHubInARealCluster acts as an attacker in the hub, or with its secret. It makes the agent,
// which may do everything, send requests to a real API server under any identity and from any
// address.
func TestSecHubInARealCluster(t *testing.T) {
	t.Parallel()
	cp := kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly, p.Audit = true, true })
	h := newHub(t)
	tun, caFile := startTunnel(t, h)
	startAgent(t, cp, h.url(), t.TempDir(), joinToken, func(c *agent.Config) {
		c.HubCAFile, c.AllowedUsers, c.AllowedGroups = caFile, []string{"ada", "*@example.com"}, []string{"leat:viewers"}
	})
	client, _ := tun.accept(t)
	const path = "/api/v1/namespaces/kube-system/secrets"
	for name, header := range map[string]http.Header{
		"controller manager": {"Impersonate-User": {"system:kube-controller-manager"}},
		"service account":    {"Impersonate-User": {"system:serviceaccount:kube-system:clusterrole-aggregation-controller"}},
		"node":               {"Impersonate-User": {"system:node:a"}, "Impersonate-Group": {"system:nodes"}},
		"masters":            {"Impersonate-User": {"ada"}, "Impersonate-Group": {"system:masters"}},
		"second group":       {"Impersonate-User": {"ada"}, "Impersonate-Group": {"leat:viewers", "system:masters"}},
		"spaces":             {"Impersonate-User": {"ada"}, "Impersonate-Group": {" system:masters"}},
		"in an upgrade":      {"Impersonate-User": {"ada"}, "Impersonate-Group": {" system:masters"}, "Leat-Upgrade": {"websocket"}},
		"not listed":         {"Impersonate-User": {"bob"}},
		"group not listed":   {"Impersonate-User": {"ada"}, "Impersonate-Group": {"leat:admins"}},
	} {
		response := send(t, client, http.MethodGet, "/kubernetes"+path+"?limit=1", "", header)
		got := read[status](t, response, http.StatusForbidden)
		if got.Kind != "Status" || response.Header.Get("Leat-Error-Origin") != "agent" || response.Header.Get("Leat-Error-Reason") != "ACCESS_DENIED" {
			t.Errorf("%s: got %+v of %q, want a Status of the agent", name, got, response.Header.Get("Leat-Error-Origin"))
		}
	}
	header := http.Header{"Impersonate-User": {"grace@example.com"}, "Impersonate-Group": {"leat:viewers"}}
	for _, name := range []string{
		"X-Real-Ip", "X-Forwarded-For", "Forwarded", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Original-Forwarded-For", "X-Envoy-External-Address",
		"X-Remote-User", "X-Remote-Group",
	} {
		header.Set(name, "203.0.113.66")
	}
	const asked = "/api/v1/namespaces/default/configmaps"
	if got := send(t, client, http.MethodGet, "/kubernetes"+asked, "", header).Header.Get("Leat-Error-Origin"); got == "agent" {
		t.Error("the agent refused somebody who is listed")
	}
	var records []audited // the API server records a request when it has answered
	await.Poll(t, "an audit record of a request that the agent let through", 50*time.Millisecond, func() (bool, string) {
		records = auditLog(t, cp, asked)
		return len(records) > 0, ""
	})
	for _, record := range records {
		if record.ImpersonatedUser == nil || record.ImpersonatedUser.Username != "grace@example.com" || slices.Contains(record.SourceIPs, "203.0.113.66") {
			t.Errorf("got %+v, want grace, and no address of somebody's choice", record)
		}
	}
	if records := auditLog(t, cp, path); len(records) > 0 {
		t.Errorf("the API server saw %+v, want nothing", records)
	}
}
