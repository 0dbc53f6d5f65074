// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/kit/seal"
)

func secret(fill byte) []byte { return bytes.Repeat([]byte{fill}, seal.MinSecret) }

func sealer(t interface{ Fatalf(string, ...any) }, secret []byte, purpose string) *seal.Sealer {
	s, err := seal.NewSealer(secret, purpose)
	if err != nil {
		t.Fatalf("make sealer: %v", err)
	}
	return s
}

func TestSealRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		aad := rapid.SliceOf(rapid.Byte()).Draw(t, "aad")
		sealed, err := sealer(t, secret(1), "test").Seal(plain, aad)
		if err != nil {
			t.Fatalf("seal: %v", err)
		}
		got, err := sealer(t, secret(1), "test").Open(sealed, aad)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("open: got %x, %v, want %x", got, err, plain)
		}
	})
}

func TestOpenRefusesEveryChange(t *testing.T) {
	t.Parallel()
	s := sealer(t, secret(1), "test")
	sealed, err := s.Seal([]byte("plain"), []byte("demo"))
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		assertSealed(t, s, changed, "demo")
		assertSealed(t, s, sealed[:i], "demo")
	}
	assertSealed(t, s, append(bytes.Clone(sealed), 0), "demo")
	assertSealed(t, s, sealed, "other")
	assertSealed(t, sealer(t, secret(1), "other purpose"), sealed, "demo")
	assertSealed(t, sealer(t, secret(2), "test"), sealed, "demo")
}

func TestSealIsDifferentEachTime(t *testing.T) {
	t.Parallel()
	s := sealer(t, secret(1), "test")
	first, _ := s.Seal([]byte("plain"), nil)
	second, _ := s.Seal([]byte("plain"), nil)
	if bytes.Equal(first, second) {
		t.Error("got the same bytes twice, want a new nonce each time")
	}
}

func TestNewSealerRefusesWeakInput(t *testing.T) {
	t.Parallel()
	if _, err := seal.NewSealer(secret(1)[1:], "test"); err == nil {
		t.Error("short secret: got no error")
	}
	if _, err := seal.NewSealer(secret(1), ""); err == nil {
		t.Error("empty purpose: got no error")
	}
}

func assertSealed(t *testing.T, s *seal.Sealer, sealed []byte, aad string) {
	t.Helper()
	if got, err := s.Open(sealed, []byte(aad)); !errors.Is(err, seal.ErrSealed) || got != nil {
		t.Errorf("open %x with %q: got %q, %v, want %v", sealed, aad, got, err, seal.ErrSealed)
	}
}
