// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"testing"

	"github.com/leatdev/leat/internal/kit/seal"
)

func fingerprint(t *testing.T, fill byte, purpose, content string) string {
	t.Helper()
	f, err := seal.NewFingerprinter(secret(fill), purpose)
	if err != nil {
		t.Fatal(err)
	}
	return f.Fingerprint([]byte(content))
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	// Databases hold such values and compare them for ever, so this value must not change.
	const want = "hmac-sha256:89bcbe2cf55ea0ca2f1fe6bd4348378a4d6c37cf40567db102704f9b44914c8d"
	if got := fingerprint(t, 1, "test", "hunter2"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, other := range map[string]string{
		"content": fingerprint(t, 1, "test", "hunter3"),
		"purpose": fingerprint(t, 1, "other", "hunter2"),
		"secret":  fingerprint(t, 2, "test", "hunter2"),
	} {
		if other == want {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
}

func TestNewFingerprinterRefuses(t *testing.T) {
	t.Parallel()
	if _, err := seal.NewFingerprinter(secret(1)[1:], "test"); err == nil {
		t.Error("a short secret was taken")
	}
	if _, err := seal.NewFingerprinter(secret(1), ""); err == nil {
		t.Error("an empty purpose was taken")
	}
}
