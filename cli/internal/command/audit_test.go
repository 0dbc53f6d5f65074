// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/distributor"
)

const realAdminToken = "leat_the-admin-token-of-a-real-hub"

// startRealHub starts a distributor, which has no gitcache, and returns its URL.
func startRealHub(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := distributor.Config{
		DataDir: filepath.Join(t.TempDir(), "data"), GitCacheURL: "http://127.0.0.1:1", AdminToken: secret.Text(realAdminToken),
		Service: hubkeys.Config(identity.ServiceDistributor), Telemetry: telemetry.Config{LogOutput: t.Output()},
		Audit: distributor.AuditConfig{Config: auditout.Config{Outputs: []string{"none"}}},
	}
	cfg.Serve.Listener, cfg.Serve.DrainTimeout = listener, 5*time.Second
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- distributor.Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("distributor ended with %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

// person runs leat as one person.
type person struct {
	t      *testing.T
	server string
	token  string
	// shown is called with all that a command has printed so far. Nil: it is not.
	shown func(out string)
}

// screen is the standard output of a command, for a person who reads it.
type screen struct {
	text  bytes.Buffer
	shown func(out string)
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	_, _ = s.text.Write(p)
	if s.shown != nil {
		s.shown(s.text.String())
	}
	return len(p), nil
}

// run returns what a command prints.
func (p person) run(ctx context.Context, in string, args ...string) string {
	p.t.Helper()
	out, errs, code := p.try(ctx, in, args...)
	if code != 0 {
		p.t.Fatalf("leat %s: exit %d\n%s", strings.Join(args, " "), code, errs)
	}
	return out
}

func (p person) try(ctx context.Context, in string, args ...string) (out, errs string, code int) {
	env := map[string]string{"LEAT_SERVER": p.server, "LEAT_TOKEN": p.token, "LEAT_CONFIG": filepath.Join(p.t.TempDir(), "config.yaml")}
	stdout, stderr := screen{shown: p.shown}, bytes.Buffer{}
	code = command.Run(ctx, command.Params{
		Args: args, In: strings.NewReader(in), Out: &stdout, Err: &stderr,
		LookupEnv: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
	return stdout.text.String(), stderr.String(), code
}

const shopDocuments = `{apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: berlin}}
---
{apiVersion: leat.dev/v1, kind: Repository, metadata: {name: shop}, spec: {url: "https://git.example/shop.git"}}
---
{apiVersion: leat.dev/v1, kind: Service, metadata: {name: shop}, spec: {cluster: berlin, sources: [{repository: shop, path: deploy}]}}
---
{apiVersion: leat.dev/v1, kind: AccessBinding, metadata: {name: shop-team}, spec: {users: [ada], clusters: {names: [berlin]}, role: viewer}}
`

// TestAuditorsQuestions runs the commands of docs/operations/audit.md against a real hub, after what
// the page tells of.
func TestAuditorsQuestions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	admin := person{t: t, server: startRealHub(t), token: realAdminToken}
	admin.run(ctx, "", "create", "user", "ada")
	admin.run(ctx, "", "create", "user", "bob", "--group", "leat:admins")
	ada := person{t: t, server: admin.server, token: strings.TrimSpace(admin.run(ctx, "", "create", "token", "ada", "--label", "laptop"))}
	bob := person{t: t, server: admin.server, token: strings.TrimSpace(admin.run(ctx, "", "create", "token", "bob", "--label", "laptop"))}
	admin.run(ctx, shopDocuments, "apply", "-f", "-", "--reason", "first service")
	bob.run(ctx, strings.Replace(shopDocuments, "path: deploy", "path: deploy/eu", 1), "apply", "-f", "-", "--reason", "OPS-812: 50% über")
	if out, _, code := ada.try(ctx, "", "create", "user", "eve"); code == 0 {
		t.Fatalf("ada made a user: %s", out)
	}
	id := ""
	for line := range strings.Lines(admin.run(ctx, "", "get", "tokens")) {
		if strings.Contains(line, "bob") {
			id = strings.Fields(line)[0]
		}
	}

	want := map[string][]string{
		"leat audit service shop --since 30d":                                           {"bob", "update", "OPS-812: 50% über", `spec.sources[0].path: "deploy" → "deploy/eu"`, "admin", "create", "first service"},
		"leat audit --token 0123456789abcdef":                                           {"bob", "service/shop"},
		"leat audit --by ada --refused":                                                 {"ada", "create", "user/eve", "ACCESS_DENIED"},
		"leat audit accessbinding -o json":                                              {`"accessbinding`, `"shop-team"`, `"spec.users[0]"`, `"ada\"`},
		"leat audit --rpc Apply -o yaml":                                                {"requestId:", "kind: Service"},
		"leat audit --follow":                                                           {"bob", "update", "service/shop"},
		"leat access who-can delete pods --cluster berlin --at 2026-11-20":              {"ada", "shop-team", "viewer", "leat:viewers", "bob", "(leat:admins)", "leat:admins"},
		"leat access who-can create pods/exec --cluster berlin -n shop --at 2h -o json": {"records of changes reach back to"},
		"leat get service shop -o yaml":                                                 {"createdBy: user:admin", "updatedBy: user:bob", "reason: 'OPS-812: 50% über'"},
		`leat apply -f shop.yaml --reason "OPS-812: new region"`:                        {"service/shop"},
	}
	for _, line := range examplesOf(t, "../../../docs/operations/audit.md") {
		texts, ok := want[line]
		if !ok {
			t.Errorf("this test knows no answer to %s", line)
			continue
		}
		delete(want, line)
		line = strings.Replace(line, "--at 2026-11-20", "--at "+time.Now().Format(time.RFC3339Nano), 1) // the hub is of today
		args := words(strings.Replace(line, "0123456789abcdef", id, 1))[1:]
		for i, arg := range args {
			if arg == "shop.yaml" {
				args[i] = "-"
			}
		}
		ctx, who := ctx, admin
		if strings.Contains(line, "--follow") { // a person interrupts it when they have seen enough
			var interrupt context.CancelFunc
			ctx, interrupt = context.WithTimeout(ctx, time.Minute)
			defer interrupt()
			who.shown = func(out string) {
				if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(strings.ToLower(out), text) }) {
					interrupt()
				}
			}
		}
		out, errs, code := who.try(ctx, shopDocuments, args...)
		if isRefused := strings.Contains(line, "--at 2h"); (code != 0) != isRefused {
			t.Fatalf("%s: exit %d\n%s", line, code, errs)
		}
		out += errs
		for _, text := range texts {
			if !strings.Contains(strings.ToLower(out), strings.ToLower(text)) {
				t.Errorf("%s: got\n%s\nwithout %q", line, out, text)
			}
		}
		if strings.Contains(line, "--token") && strings.Contains(out, "admin") {
			t.Errorf("%s: got records of others:\n%s", line, out)
		}
	}
	for line := range want {
		t.Errorf("docs/operations/audit.md does not have %s", line)
	}

	if out := admin.run(ctx, "", "get", "service", "shop"); !strings.Contains(out, "Last changed by admin ") || !strings.Contains(out, "ago: OPS-812: new region") {
		t.Errorf("leat get service shop does not say who changed it:\n%s", out)
	}
	if _, errs, code := ada.try(ctx, "", "audit"); code == 0 || !strings.Contains(errs, "administrator") {
		t.Errorf("ada sees the records: exit %d, %s", code, errs)
	}
	for _, args := range [][]string{
		{"audit", "--since", "yesterday"},
		{"audit", "gadget"},
		{"audit", "--refused", "--outcome", "ok"},
		{"audit", "--limit", "-1"},
		{"audit", "a", "b", "c"},
		{"audit", "--follow", "--until", "1d"},
		{"access", "who-can", "delete", "pods"},
		{"access", "who-can", "delete", "--cluster", "berlin"},
		{"access", "who-can", "delete", "pods", "--cluster", "berlin", "--at", "yesterday"},
	} {
		if _, errs, code := admin.try(ctx, "", args...); code != 2 {
			t.Errorf("leat %s: got exit %d, want 2\n%s", strings.Join(args, " "), code, errs)
		}
	}
	if out := admin.run(ctx, "", "audit", "service/shop", "--limit", "1"); strings.Count(out, "\n") != 2 {
		t.Errorf("got %q, want one record below the header", out)
	}
	if out, errs, code := admin.try(ctx, "", "audit", "--until", "2020-01-01"); code != 0 || out != "" || !strings.Contains(errs, "no such records") {
		t.Errorf("got exit %d, %q, %q, want no records", code, out, errs)
	}
	_, errs, code := admin.try(ctx, shopDocuments, "apply", "-f", "-", "--reason", strings.Repeat("x", 501))
	if code == 0 || !strings.Contains(errs, "500 bytes") {
		t.Errorf("a reason of 501 bytes: exit %d, %s", code, errs)
	}
}

// examplesOf returns the lines of the shell examples on a page.
func examplesOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	parts := strings.Split(string(text), "```sh\n")
	for _, part := range parts[1:] {
		example, _, _ := strings.Cut(part, "```")
		for line := range strings.Lines(example) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// words splits a command line at blanks outside of double quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}
