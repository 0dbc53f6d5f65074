// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

func openFingerprints(t *testing.T, dir string) *control.Fingerprints {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	me, err := control.OpenIdentity(control.IdentityParams{Dir: dir, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	f, err := control.OpenFingerprints(control.FingerprintParams{Dir: dir, Identity: me, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFingerprints keeps fingerprints across restarts, and treats damaged ones as missing.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openFingerprints(t, dir)
	if got := f.Load(t.Context(), "web"); got != nil {
		t.Errorf("before the first: got %v, want nothing", got)
	}
	key := inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "frontend"}
	manifest := fingerprint.Text([]byte("a"))
	want := fingerprint.Table{key: {Manifest: manifest, Applied: fingerprint.Text([]byte("b"))}}
	if err := f.Save(t.Context(), "web", want); err != nil {
		t.Fatal(err)
	}
	draft := filepath.Join(dir, "fingerprints", ".web.sealed-1")
	if err := os.WriteFile(draft, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}

	f = openFingerprints(t, dir)
	if diff := cmp.Diff(want, f.Load(t.Context(), "web")); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(draft); err == nil {
		t.Error("the draft is still there")
	}
	path := filepath.Join(dir, "fingerprints", "web.sealed")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 || bytes.Contains(content, []byte("frontend")) || bytes.Contains(content, manifest[:]) {
		t.Errorf("the file has mode %v, or can be read, want 0600 and sealed", info.Mode())
	}
	for i := range content {
		damaged := bytes.Clone(content)
		damaged[i] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := f.Load(t.Context(), "web"); got != nil {
			t.Fatalf("byte %d damaged: got %v, want nothing", i, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "fingerprints", "other.sealed"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := f.Load(t.Context(), "other"); got != nil {
		t.Errorf("the file of another service: got %v, want nothing", got)
	}
	for range 2 {
		if err := f.Delete(t.Context(), "web"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the deleted file is still there")
	}
}
