// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/cli/internal/show"
	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/internal/testkit/golden"
)

func events() []report.Event {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	healthy := report.Service{
		Name: "demo", Cluster: "demo", Phase: "healthy", Synced: true, Delivered: true,
		Commits: []string{"0123456789abcdef"}, Digests: []string{"sha256:ab"}, Objects: 4, Healthy: 4,
	}
	failed := report.Service{
		Name: "demo-2", Cluster: "demo-2", Phase: "failed", Failed: true,
		Reason: "REF_NOT_FOUND", Message: "no branch mian", Advice: "Check the ref.",
	}
	paused := report.Service{Name: "demo-3", Cluster: "demo-3", Phase: "paused"}
	return []report.Event{
		{Time: at, Kind: report.Progress, Part: "hub", Message: "ready at http://127.0.0.1:8700"},
		{Time: at.Add(1500 * time.Millisecond), Kind: report.Delivery, Service: &healthy},
		{Time: at.Add(2 * time.Second), Kind: report.Delivery, Service: &failed},
		{Time: at.Add(3 * time.Second), Kind: report.Ready, Summary: &report.Summary{
			Server: "http://127.0.0.1:8700", UI: "http://leat.localhost:8700/ui/sign-in#code=abc", Tunnel: "https://127.0.0.1:8701", Repository: "http://127.0.0.1:8703/demo.git", Pushable: true,
			Config: "/home/me/my work/config.yaml", CAFile: "/home/me/my work/ca.pem", DataDir: "/home/me/my work", Namespace: "demo", SearchPath: "/opt/leat", Kubectl: "kubectl",
			Clusters: []report.Cluster{{Name: "demo", Kubernetes: "v1.36.3", Kubeconfig: "/home/me/my work/kubeconfig/demo", Simulated: true}},
			Services: []report.Service{healthy, failed, paused},
		}},
		{Time: at.Add(4 * time.Second), Kind: report.Stopping, Message: "stopping"},
		{Time: at.Add(5 * time.Second), Kind: report.Stopped},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tell := report.Text(&out, show.Style{})
	for _, e := range events() {
		tell(e)
	}
	golden.Assert(t, "text.golden", out.Bytes())
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tell := report.JSON(&out)
	for _, e := range events() {
		tell(e)
	}
	golden.Assert(t, "json.golden", out.Bytes())
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("got %q, want JSON on one line", line)
		}
	}
}

// The commands are pasted into a shell, so a shell must accept them.
func TestCommandsAreShell(t *testing.T) {
	t.Parallel()
	for _, e := range events() {
		if e.Summary == nil {
			continue
		}
		for _, command := range append(report.Commands(e.Summary), report.PushCommands(e.Summary)...) {
			if output, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", command).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, output)
			}
		}
	}
}
