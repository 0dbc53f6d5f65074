// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/leatdev/leat/internal/kit/seal"
)

func key(t *testing.T, fill byte) seal.Key {
	t.Helper()
	k, err := seal.NewKey(secret(fill))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keySealer(t *testing.T, ring *seal.Keyring) *seal.Sealer {
	t.Helper()
	s, err := ring.Sealer("test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sealText(t *testing.T, s *seal.Sealer, plain string) []byte {
	t.Helper()
	sealed, err := s.Seal([]byte(plain), []byte("place"))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestKeyringReplacesKeysUnderItsSealers(t *testing.T) {
	t.Parallel()
	former, next := key(t, 1), key(t, 2)
	ring := seal.NewKeyring(former)
	s := keySealer(t, ring)
	old := sealText(t, s, "old")
	if !s.IsCurrent(old) || !bytes.HasPrefix(old, former.ID().Prefix()) {
		t.Errorf("got %x, want a text that names key %s", old, former.ID())
	}

	ring.Replace(next, former)
	fresh := sealText(t, s, "new")
	if s.IsCurrent(old) || !s.IsCurrent(fresh) || ring.Current() != next.ID() {
		t.Errorf("got old current %t, new current %t, current key %s, want %s", s.IsCurrent(old), s.IsCurrent(fresh), ring.Current(), next.ID())
	}
	for _, sealed := range [][]byte{old, fresh} {
		if _, err := s.Open(sealed, []byte("place")); err != nil {
			t.Errorf("both keys are there: %v", err)
		}
	}

	ring.Replace(next)
	if _, err := s.Open(old, []byte("place")); !errors.Is(err, seal.ErrSealed) || !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("got %v, want that the key is not known", err)
	}
	forged := append(next.ID().Prefix(), old[len(next.ID().Prefix()):]...)
	if _, err := s.Open(forged, []byte("place")); !errors.Is(err, seal.ErrSealed) || errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("got %v, want that a text does not open under another key's name", err)
	}
}

// TestTextsWithoutKeyIDOpen builds a text as the form before key ids was.
func TestTextsWithoutKeyIDOpen(t *testing.T) {
	t.Parallel()
	derived, err := hkdf.Key(sha256.New, secret(1), nil, "leat seal v1: test", 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	text := append([]byte{1}, aead.Seal(nil, nil, []byte("plain"), append([]byte{1}, "place"...))...)

	s := keySealer(t, seal.NewKeyring(key(t, 2), key(t, 1)))
	if got, err := s.Open(text, []byte("place")); err != nil || string(got) != "plain" {
		t.Errorf("got %q, %v, want plain", got, err)
	}
	if s.IsCurrent(text) {
		t.Error("a text that names no key counts as sealed with the current one")
	}
	assertSealed(t, keySealer(t, seal.NewKeyring(key(t, 2))), text, "place")
	assertSealed(t, s, text, "another place")
}

func TestKeyIDs(t *testing.T) {
	t.Parallel()
	id := key(t, 1).ID()
	if got, err := seal.ParseKeyID(id.String()); err != nil || got != id {
		t.Errorf("got %s, %v, want %s", got, err, id)
	}
	for _, text := range []string{"", "0123", id.String() + "00", "zz" + id.String()[2:]} {
		if _, err := seal.ParseKeyID(text); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
	if _, err := seal.NewKey(secret(1)[1:]); err == nil {
		t.Error("short secret: got no error")
	}
	if _, err := seal.NewKeyring(key(t, 1)).Sealer(""); err == nil {
		t.Error("empty purpose: got no error")
	}
}

func TestFingerprintKeysOutliveTheirSecret(t *testing.T) {
	t.Parallel()
	derived, err := seal.NewFingerprintKey(secret(1), "test")
	if err != nil {
		t.Fatal(err)
	}
	f, err := seal.FingerprinterOf(derived)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Fingerprint([]byte("content")), fingerprint(t, 1, "test", "content"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := seal.FingerprinterOf(derived[1:]); err == nil {
		t.Error("short key: got no error")
	}
}

func TestSecSignaturesOfAcceptedSecretsOnly(t *testing.T) {
	t.Parallel()
	signer := func(own byte, accepted ...byte) *seal.Signer {
		t.Helper()
		var others [][]byte
		for _, fill := range accepted {
			others = append(others, secret(fill))
		}
		s, err := seal.NewSigner(secret(own), "row", others...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	both := signer(2, 1)
	for name, test := range map[string]struct {
		by   *seal.Signer
		want bool
	}{
		"the former secret": {signer(1), true},
		"the own secret":    {signer(2), true},
		"a third secret":    {signer(3), false},
		"a signer that accepts the own secret, and signs with a third": {signer(3, 2), false},
	} {
		if got := both.Verify(test.by.Sign("a", "b"), "a", "b"); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
	if signer(1).Verify(both.Sign("a"), "a") {
		t.Error("an accepted secret signs")
	}
}
