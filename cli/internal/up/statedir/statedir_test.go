// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package statedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/cli/internal/up/statedir"
)

func TestSecretsStay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "up")
	first, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	secrets := first.Secrets
	if len(secrets.HubSecret) < 32 || len(secrets.AdminToken) < 32 {
		t.Errorf("secrets: got lengths %d and %d, want at least 32", len(secrets.HubSecret), len(secrets.AdminToken))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if second.Secrets != secrets {
		t.Error("secrets: got other ones at the second start, want the same")
	}
	for _, name := range []string{"secrets.json", "pid"} {
		info, err := os.Stat(second.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s: got mode %o, want 600", name, got)
		}
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	first, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	var inUse *statedir.InUseError
	if _, err := statedir.Open(path); !errors.As(err, &inUse) || inUse.PID == "" {
		t.Errorf("second Open: got error %v, want an *InUseError with a process", err)
	}
}
