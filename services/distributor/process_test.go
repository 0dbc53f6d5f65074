// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/uptrace/bun/schema"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/services/distributor"
)

// asProgram is the program name that makes the test binary run the distributor.
const asProgram = "distributor-test-as-program"

func TestMain(m *testing.M) {
	if os.Args[0] == asProgram {
		runProgram()
		return
	}
	// bun computes a plural for each model of each store, with dozens of regular expressions, before it
	// reads that the model names its table.
	schema.SetTableNameInflector(func(model string) string { return model + "s" })
	os.Exit(m.Run())
}

// runProgram does what the distributor's main function does.
func runProgram() {
	var (
		cfg        distributor.Config
		backup     distributor.BackupConfig
		restore    distributor.RestoreConfig
		breakGlass distributor.BreakGlassConfig
	)
	app.Main("distributor", &cfg, func(ctx context.Context) error { return distributor.Run(ctx, cfg) },
		app.Command{Name: "backup", Config: &backup, Run: func(ctx context.Context) error { return distributor.Backup(ctx, backup) }},
		app.Command{Name: "restore", Config: &restore, Run: func(ctx context.Context) error { return distributor.Restore(ctx, restore) }},
		app.Command{Name: "break-glass", Config: &breakGlass, Run: func(ctx context.Context) error { return distributor.BreakGlass(ctx, breakGlass) }},
	)
}

// process is the distributor as a process of its own, on a database of SQLite.
type process struct {
	environment map[string]string
}

func newProcess(t *testing.T) *process {
	t.Helper()
	dir := t.TempDir()
	return &process{environment: hubkeys.Env(identity.ServiceDistributor, map[string]string{
		"LEAT_DISTRIBUTOR_DATA_DIR": dir, "LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + filepath.Join(dir, "leat.db"),
		"LEAT_DISTRIBUTOR_AUDIT_OUTPUT": "none", "LEAT_GITCACHE_URL": "http://127.0.0.1:1",
		"LEAT_LISTEN_ADDR": "127.0.0.1:0", "LEAT_INTERNAL_LISTEN_ADDR": "127.0.0.1:0",
	})}
}

// command returns the distributor with those arguments, not started yet.
func (p *process) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Args[0] = asProgram
	command.Env = os.Environ()
	for name, value := range p.environment {
		command.Env = append(command.Env, name+"="+value)
	}
	return command
}

// run runs a command of the distributor to its end.
func (p *process) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	command := p.command(t, args...)
	command.Stdout, command.Stderr = &out, &errOut
	if err := command.Run(); command.ProcessState == nil {
		t.Fatalf("run %v: %v", args, err)
	}
	return command.ProcessState.ExitCode(), out.String(), errOut.String()
}

// start starts the service, and blocks until its log has the text.
func (p *process) start(t *testing.T, text string) (*program.Program, *exec.Cmd) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	command := p.command(t)
	command.Stdout, command.Stderr = log, log
	started := program.Start(t, command)
	started.Await(t, func() bool {
		said, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(said), text)
	})
	return started, command
}

// TestSilentCollectorFailsNoProgram exports to a collector that takes connections and never
// answers, such as one that stops at the same time. The programs end as if there was none: a
// restore prints the remaining steps, and a service that is told to stop exits with 0.
func TestSilentCollectorFailsNoProgram(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	p := newProcess(t)
	p.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://" + silent.Addr().String()

	service, command := p.start(t, "replica started")
	service.End(syscall.SIGTERM)
	if code := command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the service exits with %d after SIGTERM, want 0", code)
	}
	code, token, said := p.run(t, "break-glass", "--break-glass-reason=OPS-9")
	if code != 0 || !strings.HasPrefix(token, "leat_") {
		t.Errorf("break-glass exits with %d and prints %q and\n%s\nwant 0 and a token", code, token, said)
	}
	file := filepath.Join(t.TempDir(), "hub.backup")
	if code, _, said := p.run(t, "backup", "--backup-file="+file); code != 0 {
		t.Fatalf("backup exits with %d and\n%s", code, said)
	}
	code, _, said = p.run(t, "restore", "--restore-file="+file, "--restore-replace", "--restore-keep-tokens")
	if code != 0 || !strings.Contains(said, "is valid again") || !strings.Contains(said, "leat cluster release") {
		t.Errorf("restore exits with %d and prints\n%s\nwant 0 and what is left to do", code, said)
	}
}

// TestBreakGlassPrintsTheTokenAlone writes audit records to the default output. Scripts take all of
// the standard output for the token.
func TestBreakGlassPrintsTheTokenAlone(t *testing.T) {
	t.Parallel()
	p := newProcess(t)
	delete(p.environment, "LEAT_DISTRIBUTOR_AUDIT_OUTPUT")
	code, token, said := p.run(t, "break-glass", "--break-glass-reason=OPS-9")
	if code != 0 || !regexp.MustCompile(`^leat_[-_0-9a-zA-Z]+\n$`).MatchString(token) {
		t.Errorf("got exit code %d and %q, want 0 and one line with the token", code, token)
	}
	if !strings.Contains(said, `"kind":"Token"`) {
		t.Errorf("got\n%s\nwant the record of the token", said)
	}
}
