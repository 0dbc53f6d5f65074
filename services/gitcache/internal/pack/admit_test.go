// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

func TestAdmittedPackIsWhole(t *testing.T) {
	t.Parallel()
	data, counts := packed(t, history(t, 5)), &scarce{}
	for name, c := range map[string]struct {
		memory pack.Memory
		data   []byte
	}{
		"at once": {plenty{}, data}, "later": {counts, data}, "nothing": {counts, nil}, "no pack": {counts, []byte("what")},
	} {
		into := t.TempDir()
		a, err := pack.Admit(t.Context(), into, bytes.NewReader(c.data), c.memory)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(a)
		if err != nil || !bytes.Equal(got, c.data) {
			t.Errorf("%s: got %d bytes (%v), want %d", name, len(got), err, len(c.data))
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		wantEmpty(t, into)
	}
	if len(counts.asked) != 3 || counts.held != 0 {
		t.Errorf("got %v asked for and %d held, want three and nothing", counts.asked, counts.held)
	}
	refused, into := errors.New("never"), t.TempDir()
	if _, err := pack.Admit(t.Context(), into, bytes.NewReader(data), &scarce{err: refused}); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
	wantEmpty(t, into)
}
