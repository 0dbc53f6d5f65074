// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package reference makes the reference pages: what can be set, and what can go wrong.
package reference

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/services/agent"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/gitcache"
	"github.com/leatdev/leat/services/tunnel"
)

const notice = "<!-- Made by `make generate`. Edit the code, not this page. -->\n\n"

// Write makes config.md, errors.md and metrics.md in the folder out, reading the error reasons and
// the metrics from the source in the folder source.
func Write(out, source string) error {
	instruments, err := Instruments(source)
	if err != nil {
		return err
	}
	reasons, err := os.ReadFile(filepath.Join(source, "proto/leat/errors/v1/reason.proto"))
	if err != nil {
		return fmt.Errorf("read the error reasons: %w", err)
	}
	errorPage, err := errorReasons(string(reasons))
	if err != nil {
		return err
	}
	settingsPage, err := settings()
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(out, "config.md"), settingsPage, 0o644),
		os.WriteFile(filepath.Join(out, "errors.md"), errorPage, 0o644),
		os.WriteFile(filepath.Join(out, "metrics.md"), metricsPage(instruments), 0o644),
	)
}

// settings lists the settings of every deployable.
func settings() ([]byte, error) {
	var page bytes.Buffer
	page.WriteString("# Settings\n\n" + notice)
	page.WriteString("Every setting has a flag and an environment variable; the flag wins. Durations and sizes carry units (`2m`, `512MiB`). " +
		"A secret can be read from a file instead: `NAME_FILE`, or `--name-file`. Telemetry is set up by the standard `OTEL_*` variables.\n")
	for _, service := range []struct {
		name string
		cfg  interface{ Bind(s *config.Set) }
	}{
		{"gitcache", &gitcache.Config{}},
		{"distributor", &distributor.Config{}},
		{"tunnel", &tunnel.Config{}},
		{"agent", &agent.Config{}},
	} {
		set := config.New(service.name, func(string) (string, bool) { return "", false })
		service.cfg.Bind(set)
		fmt.Fprintf(&page, "\n## %s\n\n", service.name)
		if err := set.Document(&page); err != nil {
			return nil, err
		}
	}
	return page.Bytes(), nil
}

// errorReasons lists the values of the Reason enum with their comments. The generated Go has no
// comments, so the proto file itself is read: a comment, then the value it belongs to.
func errorReasons(proto string) ([]byte, error) {
	var page bytes.Buffer
	page.WriteString("# Error reasons\n\n" + notice)
	page.WriteString("A failed call carries a Connect code and a `google.rpc.ErrorInfo` of the domain `leat.dev` with one of these reasons, " +
		"and `google.rpc.RetryInfo` where waiting helps. States of repositories and services use the same list.\n\n")
	page.WriteString("| reason | what it means, and what to do |\n|---|---|\n")
	var comment []string
	found := 0
	for line := range strings.Lines(proto) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "// "); ok {
			comment = append(comment, text)
			continue
		}
		if name, _, ok := strings.Cut(line, " = "); ok {
			if reason, ok := strings.CutPrefix(name, "REASON_"); ok && reason != "UNSPECIFIED" {
				fmt.Fprintf(&page, "| `%s` | %s |\n", reason, strings.Join(comment, " "))
				found++
			}
		}
		comment = nil
	}
	if found == 0 {
		return nil, errors.New("read the error reasons: the proto file has none")
	}
	return page.Bytes(), nil
}
