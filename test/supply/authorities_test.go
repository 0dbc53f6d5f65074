// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/leatdev/leat/test/supply"
)

// TestSecAuthoritiesAreMozillas requires that images trust the authorities of the pinned module, and
// none that Mozilla trusts only under a condition, which a file cannot hold.
func TestSecAuthoritiesAreMozillas(t *testing.T) {
	t.Parallel()
	want, err := supply.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../deploy/image/ca-certificates.crt")
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the authorities of images are not those of the pinned module (%v); run make authorities", err)
	}
	isConditional := map[string]bool{}
	for root := range bundle.Roots() {
		isConditional[string(root.Certificate)] = root.Constraint != nil
	}
	count, names := 0, map[string]bool{}
	for block, rest := pem.Decode(got); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		count++
		names[certificate.Subject.CommonName] = true
		if conditional, known := isConditional[string(block.Bytes)]; !known || conditional || !certificate.IsCA {
			t.Errorf("%s: in Mozilla's list: %t, under a condition: %t, an authority: %t", certificate.Subject, known, conditional, certificate.IsCA)
		}
	}
	// Readers of PEM end without an error at text that they do not understand.
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(got) || count < 100 || !names["ISRG Root X1"] {
		t.Errorf("got %d authorities, want more than a hundred, with Let's Encrypt's", count)
	}
}
