// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

func TestTable(t *testing.T) {
	t.Parallel()
	sum := rapid.Custom(func(t *rapid.T) (s fingerprint.Sum) {
		copy(s[:], rapid.SliceOfN(rapid.Byte(), len(s), len(s)).Draw(t, "sum"))
		return s
	})
	key := rapid.Custom(func(t *rapid.T) inventory.Key {
		return inventory.Key{
			Group: rapid.String().Draw(t, "group"), Kind: rapid.String().Draw(t, "kind"),
			Namespace: rapid.String().Draw(t, "namespace"), Name: rapid.String().Draw(t, "name"),
		}
	})
	kept := rapid.Custom(func(t *rapid.T) fingerprint.Kept {
		return fingerprint.Kept{Manifest: sum.Draw(t, "manifest"), Applied: sum.Draw(t, "applied")}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := fingerprint.Table(rapid.MapOfN(key, kept, 0, 5).Draw(t, "table"))
		encoded := want.Encode()
		got, err := fingerprint.DecodeTable(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("table (-want +got):\n%s", diff)
		}
		cut := rapid.IntRange(0, len(encoded)-1).Draw(t, "cut")
		if _, err := fingerprint.DecodeTable(encoded[:cut]); !errors.Is(err, fingerprint.ErrMalformed) {
			t.Errorf("cut at %d of %d: got error %v, want %v", cut, len(encoded), err, fingerprint.ErrMalformed)
		}
		encoded[cut] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := fingerprint.DecodeTable(encoded); !errors.Is(err, fingerprint.ErrMalformed) {
			t.Errorf("byte %d damaged: got error %v, want %v", cut, err, fingerprint.ErrMalformed)
		}
	})
}
