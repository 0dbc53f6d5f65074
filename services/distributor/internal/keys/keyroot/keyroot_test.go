// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

// conformance is the suite that every root has to pass. other has another name.
func conformance(t *testing.T, root, other keyroot.Root) {
	t.Helper()
	key := bytes.Repeat([]byte{7}, 32)
	wrapped, err := root.Wrap(t.Context(), key, "a")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(wrapped, key) {
		t.Error("the wrapped key contains the key")
	}
	if got, err := root.Unwrap(t.Context(), wrapped, "a"); err != nil || !bytes.Equal(got, key) {
		t.Errorf("got %x, %v, want the key", got, err)
	}
	again, err := root.Wrap(t.Context(), key, "a")
	if err != nil || bytes.Equal(again, wrapped) {
		t.Errorf("got the same bytes twice (%v), want a new nonce each time", err)
	}
	if root.Name() == other.Name() {
		t.Errorf("two roots are called %s", root.Name())
	}
	for name, unwrap := range map[string]func() ([]byte, error){
		"another place": func() ([]byte, error) { return root.Unwrap(t.Context(), wrapped, "b") },
		"another root":  func() ([]byte, error) { return other.Unwrap(t.Context(), wrapped, "a") },
		"cut short":     func() ([]byte, error) { return root.Unwrap(t.Context(), wrapped[:len(wrapped)-1], "a") },
		"empty":         func() ([]byte, error) { return root.Unwrap(t.Context(), nil, "a") },
	} {
		if got, err := unwrap(); !errors.Is(err, keyroot.ErrRefused) || got != nil {
			t.Errorf("%s: got %x, %v, want %v", name, got, err, keyroot.ErrRefused)
		}
	}
}

func local(t *testing.T, fill string) keyroot.Root {
	t.Helper()
	root, err := keyroot.NewLocal([]byte(strings.Repeat(fill, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestLocal(t *testing.T) {
	t.Parallel()
	conformance(t, local(t, "a"), local(t, "b"))
	if first, second := local(t, "a"), local(t, "a"); first.Name() != second.Name() {
		t.Error("one secret has two names")
	}
}

func TestParseLocal(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 32), strings.Repeat("b", 32)
	roots, err := keyroot.ParseLocal(secret.Text("# used\n" + a + "\n\n  " + b + "  \r\n"))
	if err != nil || len(roots) != 2 || roots[0].Name() != local(t, "a").Name() || roots[1].Name() != local(t, "b").Name() {
		t.Errorf("got %v, %v, want both keys in order", roots, err)
	}
	if roots, err := keyroot.ParseLocal(""); err != nil || len(roots) != 0 {
		t.Errorf("got %v, %v, want none", roots, err)
	}
	for text, want := range map[string]string{
		a + "\nshort-and-secret":               "line 2",
		strings.Repeat(a+"\n", 17):             "more than 16",
		a + "\n" + strings.Repeat("x", 10<<10): "line 2: longer",
	} {
		_, err := keyroot.ParseLocal(secret.Text(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-") {
			t.Errorf("got %v, want an error with %q and without a key", err, want)
		}
	}
}
