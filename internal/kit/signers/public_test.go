// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/signers"
)

func publicPEM(t *testing.T, kind string, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// TestParsePublicKeys refuses keys that are not safe, not public, or would be left out silently.
func TestParsePublicKeys(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve := func(c elliptic.Curve) string {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return publicPEM(t, "PUBLIC KEY", &key.PublicKey)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := publicPEM(t, "PUBLIC KEY", public)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text string
		keys int
		says string // the error; empty: there is none
	}{
		"one":            {good, 1, ""},
		"several":        {"ours:\n" + good + "\nand theirs:\n" + curve(elliptic.P521()) + curve(elliptic.P384()), 3, ""},
		"CRLF":           {strings.ReplaceAll(good, "\n", "\r\n"), 1, ""},
		"none":           {" \n", 0, "no public key in PEM form"},
		"cut":            {good + good[:len(good)/2], 0, "block 2"},
		"another type":   {publicPEM(t, "CERTIFICATE", public), 0, "block 1"},
		"private":        {good + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0, "private"},
		"cosign.key":     {string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: []byte("{}")})), 0, "private"},
		"garbage":        {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})), 0, "block 1"},
		"short RSA":      {publicPEM(t, "PUBLIC KEY", &short.PublicKey), 0, "1024 bits"},
		"a small curve":  {curve(elliptic.P224()), 0, "P-224"},
		"too many":       {strings.Repeat(good, 33), 0, "more than 32"},
		"as many as may": {strings.Repeat(good, 32), 32, ""},
	} {
		keys, err := signers.ParsePublicKeys(test.text)
		if bad, ok := errors.AsType[*signers.KeyError](err); test.says != "" {
			if !ok || bad.List != signers.ListCosign || !strings.Contains(bad.Message, test.says) {
				t.Errorf("%s: got %v, want an error that has %q", name, err, test.says)
			}
			continue
		}
		if err != nil || len(keys.IDs()) != test.keys || len(keys.IDs()[0]) != 16 {
			t.Errorf("%s: got %+v (%v), want %d keys", name, keys, err, test.keys)
		}
	}
	keys, err := signers.ParsePublicKeys(good)
	if err != nil {
		t.Fatal(err)
	}
	if message := []byte("m"); !keys.Verify(message, ed25519.Sign(private, message)) || keys.Verify([]byte("n"), ed25519.Sign(private, message)) || keys.Verify(message, nil) {
		t.Error("got a signature accepted for another message, or not for its own")
	}
}
