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

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
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

// TestSecLockOfTheCluster has a hub send a service without an account, and settings without a lock,
// to an agent whose own settings lock it.
func TestSecLockOfTheCluster(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	startAgent(t, cp, h.url(), t.TempDir(), joinToken, func(c *agent.Config) {
		c.LockDown, c.AllowedAccounts = true, []string{"team-a/*"}
	})
	h.deploy(t, "web", map[string]string{"a.yaml": configMap("locked-a", "1")})
	got := h.awaitReport(t, "web", phase(failed, "")).GetProblem()
	if got.GetReason() != errorsv1.Reason_REASON_TENANT_FORBIDDEN || !strings.Contains(got.GetMessage(), "LEAT_AGENT_LOCK_DOWN") {
		t.Errorf("got %v, want TENANT_FORBIDDEN of the cluster's own lock", got)
	}
	assertValue(t, cp, "locked-a", "")
}

// TestSecSettingsOfTheLock reads settings of the lock that are wrong or empty.
func TestSecSettingsOfTheLock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env   map[string]string
		words string // of the error; empty: no error
	}{
		"none":                {},
		"the lock":            {env: map[string]string{"LEAT_AGENT_LOCK_DOWN": "true"}},
		"the lock and a list": {env: map[string]string{"LEAT_AGENT_LOCK_DOWN": "true", "LEAT_AGENT_ALLOWED_ACCOUNTS": "team-*/deployer"}},
		"an empty list":       {env: map[string]string{"LEAT_AGENT_LOCK_DOWN": "true", "LEAT_AGENT_ALLOWED_ACCOUNTS": ""}, words: "at least one item"},
		"a list of nothing":   {env: map[string]string{"LEAT_AGENT_LOCK_DOWN": "true", "LEAT_AGENT_ALLOWED_ACCOUNTS": " , "}, words: "at least one item"},
		"a name alone":        {env: map[string]string{"LEAT_AGENT_LOCK_DOWN": "true", "LEAT_AGENT_ALLOWED_ACCOUNTS": "deployer"}, words: "want namespace/name"},
		"a slash":             {env: map[string]string{"LEAT_AGENT_LOCK_DOWN": "true", "LEAT_AGENT_ALLOWED_ACCOUNTS": "/"}, words: "want namespace/name"},
		"a list without lock": {env: map[string]string{"LEAT_AGENT_ALLOWED_ACCOUNTS": "team-a/deployer"}, words: "LEAT_AGENT_LOCK_DOWN"},
	} {
		set := config.New("agent", func(name string) (string, bool) {
			if name == "LEAT_AGENT_HUB_URL" {
				return "https://hub.example.com", true
			}
			text, found := test.env[name]
			return text, found
		})
		new(agent.Config).Bind(set)
		err := set.Parse(nil)
		if test.words == "" && err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		if test.words != "" && (err == nil || !strings.Contains(err.Error(), test.words) || !strings.Contains(err.Error(), "agent-allowed-accounts")) {
			t.Errorf("%s: got %v, want an error of agent-allowed-accounts with %q", name, err, test.words)
		}
	}
	if err := agent.Run(t.Context(), agent.Config{HubURL: "https://hub.example.com", DataDir: t.TempDir(), LockDown: true, AllowedAccounts: []string{}}); err == nil ||
		!strings.Contains(err.Error(), "empty list") {
		t.Errorf("an empty list in a literal: got %v, want an error", err)
	}
}
