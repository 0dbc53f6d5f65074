// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package auditout_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/config"
)

// parse returns the settings of a service's flags.
func parse(t *testing.T, args ...string) (auditout.Config, error) {
	t.Helper()
	var cfg auditout.Config
	set := config.New("distributor", func(string) (string, bool) { return "", false })
	cfg.Bind(set, "distributor")
	set.Check(func() error { return cfg.Check("distributor") })
	err := set.Parse(args)
	return cfg, err
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                       "",
		"--distributor-audit-output=none":        "",
		"--distributor-audit-output=stdout,otlp": "",
		"--distributor-audit-output=file --distributor-audit-file=a":                "",
		"--distributor-audit-output=syslog":                                         "--distributor-audit-output: got syslog",
		"--distributor-audit-output=stdout,stdout":                                  "stdout twice",
		"--distributor-audit-output=none,stdout":                                    "none alone",
		"--distributor-audit-output=file":                                           "--distributor-audit-file: got",
		"--distributor-audit-file=a":                                                "--distributor-audit-file: got",
		"--distributor-audit-output=file,stdout --distributor-audit-fail-closed=no": "fail-closed",
	} {
		_, err := parse(t, strings.Fields(args)...)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", args, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want an error with %q", args, err, want)
		}
	}
	if cfg, err := parse(t); err != nil || !cfg.FailClosed {
		t.Errorf("got %+v, %v, want to fail closed by default", cfg, err)
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	file := filepath.Join(t.TempDir(), "audit.log")
	cfg, err := parse(t, "--distributor-audit-output=stdout,file", "--distributor-audit-file="+file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Writer = &stdout
	params := auditout.Params{Service: "distributor", Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}}
	outputs, err := auditout.Open(t.Context(), cfg, params)
	if err != nil {
		t.Fatal(err)
	}
	record := &audit.Record{Request: audit.Request{ID: "1"}, Phase: audit.PhaseChange, Change: &audit.Change{}}
	if err := outputs.Write(t.Context(), record); err != nil {
		t.Error(err)
	}
	outputs.Close()
	text, err := os.ReadFile(file)
	if err != nil || string(text) != stdout.String() || !strings.Contains(string(text), `"id":"1"`) {
		t.Errorf("got %q in the file, %v, and %q at standard output", text, err, stdout.String())
	}
	if err := outputs.Write(t.Context(), record); err == nil {
		t.Error("closed outputs took a record")
	}
	cfg.File = t.TempDir() // a folder
	if _, err := auditout.Open(t.Context(), cfg, params); err == nil || !strings.Contains(err.Error(), "--distributor-audit-file") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
}
