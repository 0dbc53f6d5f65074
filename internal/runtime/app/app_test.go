// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/config"
)

type settings struct{ Workers int }

func (c *settings) Bind(s *config.Set) { s.Int(&c.Workers, "workers", 16, "things done at once") }

// asProgram is the program name that makes the test binary run app.Main.
const asProgram = "app-test-as-program"

func TestMain(m *testing.M) {
	if os.Args[0] == asProgram {
		cfg := new(settings)
		app.Main("demo", cfg, func(ctx context.Context) error { return program(ctx, cfg) })
		return
	}
	os.Exit(m.Run())
}

// program reports that it runs, and waits for its end.
func program(ctx context.Context, cfg *settings) error {
	if cfg.Workers == 0 {
		return errors.New("no workers")
	}
	say("running")
	<-ctx.Done()
	if cfg.Workers == 1 {
		say("stopping")
		select {} // hangs in its drain
	}
	return fmt.Errorf("serve: %w", ctx.Err())
}

func say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

// execute runs the shell in this process.
func execute(ctx context.Context, run func(context.Context) error, args ...string) (code int, stdout, stderr string) {
	var out, complaints strings.Builder
	set := config.New("demo", func(string) (string, bool) { return "", false })
	new(settings).Bind(set)
	code = app.Execute(ctx, app.Params{Program: "demo", Args: args, Settings: set, Run: run, Stdout: &out, Stderr: &complaints})
	return code, out.String(), complaints.String()
}

func TestExecute(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name   string
		ctx    context.Context
		args   []string
		err    error
		code   int
		stdout string
		stderr string
	}{
		{name: "good", ctx: t.Context(), code: 0},
		{name: "failing", ctx: t.Context(), err: errors.New("open database: locked"), code: 1, stderr: "demo: open database: locked\n"},
		{name: "ended by a signal", ctx: canceled, err: fmt.Errorf("x: %w", context.Canceled), code: 0},
		{name: "failing while it ends", ctx: canceled, err: errors.New("close: broken"), code: 1, stderr: "close: broken"},
		{name: "canceled by itself", ctx: t.Context(), err: context.Canceled, code: 1, stderr: "canceled"},
		{name: "wrong flag", ctx: t.Context(), args: []string{"--workers=x"}, code: 2, stderr: "--workers (LEAT_WORKERS)"},
		{name: "help", ctx: t.Context(), args: []string{"--help"}, code: 0, stdout: "--workers number"},
		{name: "version", ctx: t.Context(), args: []string{"--version"}, code: 0, stdout: "demo 0.2.0-dev"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := execute(tt.ctx, func(context.Context) error { return tt.err }, tt.args...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("got %d, %q, %q, want %d, %q, %q", code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
			}
			if tt.stderr == "" && stderr != "" {
				t.Errorf("got error output %q, want none", stderr)
			}
		})
	}
}

// child is the test binary running as a program.
type child struct {
	*exec.Cmd
	stdout interface{ Read([]byte) (int, error) }
}

func spawn(t *testing.T, args ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Args[0] = asProgram
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	return &child{Cmd: cmd, stdout: stdout}
}

// expect blocks until a line of output arrives.
func (c *child) expect(t *testing.T, line string) {
	t.Helper()
	got := make([]byte, len(line)+1)
	if n, err := c.stdout.Read(got); string(got[:n]) != line+"\n" {
		t.Fatalf("got %q, %v, want %q", got[:n], err, line)
	}
}

func (c *child) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := c.Process.Signal(signal); err != nil {
		t.Fatalf("signal: %v", err)
	}
}

func TestMainEndsAtASignal(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		program := spawn(t)
		program.expect(t, "running")
		program.signal(t, signal)
		if err := program.Wait(); err != nil {
			t.Errorf("%s: got %v, want exit code 0", signal, err)
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	program := spawn(t, "--workers=1")
	program.expect(t, "running")
	program.signal(t, syscall.SIGTERM)
	program.expect(t, "stopping")
	program.signal(t, syscall.SIGTERM)
	_ = program.Wait()
	status, _ := program.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("got %s, want it ended by the signal", program.ProcessState)
	}
}

func TestMainExitCodes(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]int{"--workers=0": 1, "--workers=x": 2, "--version": 0} {
		program := spawn(t, arg)
		_ = program.Wait()
		if got := program.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: got exit code %d, want %d", arg, got, want)
		}
	}
}

func TestBuildInfo(t *testing.T) {
	t.Parallel()
	if app.Version() != "0.2.0-dev" || app.Build().GoVersion == "" {
		t.Errorf("got %+v, want 0.2.0-dev and a Go version", app.Build())
	}
	info := app.BuildInfo{Version: "v1.2.3", Commit: "abc", Modified: true, GoVersion: "go1.26.8"}
	if got, want := info.String(), "v1.2.3, commit abc, modified, go1.26.8"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
