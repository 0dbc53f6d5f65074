// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signtest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// ChartSigner signs the archives of charts with an OpenPGP key of its own, as `helm package --sign`
// does.
type ChartSigner struct{ key *openpgp.Entity }

// NewChartSigner returns a signer with a new RSA key, the only kind that Helm signs with.
func NewChartSigner(t testing.TB) *ChartSigner {
	t.Helper()
	key, err := openpgp.NewEntity("Leat Test", "", "test@leat.invalid", &packet.Config{RSABits: 2048, Algorithm: packet.PubKeyAlgoRSA})
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return &ChartSigner{key: key}
}

// PublicKey returns the armored public key.
func (s *ChartSigner) PublicKey(t testing.TB) string {
	t.Helper()
	var text bytes.Buffer
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	if err == nil {
		err = errors.Join(s.key.Serialize(w), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return text.String() + "\n"
}

// SecretRing returns the key as gpg before version 2 kept it, which Helm reads.
func (s *ChartSigner) SecretRing(t testing.TB) []byte {
	t.Helper()
	var ring bytes.Buffer
	if err := s.key.SerializePrivate(&ring, nil); err != nil {
		t.Fatal(err)
	}
	return ring.Bytes()
}

// PublicRing returns the public key as gpg before version 2 kept it, which Helm reads.
func (s *ChartSigner) PublicRing(t testing.TB) []byte {
	t.Helper()
	var ring bytes.Buffer
	if err := s.key.Serialize(&ring); err != nil {
		t.Fatal(err)
	}
	return ring.Bytes()
}

// Claim returns the text that Helm signs for a chart's archive.
func Claim(chart, version string, archive []byte) string {
	return fmt.Sprintf("apiVersion: v2\ndescription: A chart of a test\nname: %s\ntype: application\nversion: %s\n\n...\nfiles:\n  %s-%s.tgz: sha256:%x\n",
		chart, version, chart, version, sha256.Sum256(archive))
}

// Sign returns the provenance file of a chart's archive.
func (s *ChartSigner) Sign(t testing.TB, chart, version string, archive []byte) []byte {
	t.Helper()
	return s.SignText(t, Claim(chart, version, archive))
}

// SignText returns a text with a cleartext signature.
func (s *ChartSigner) SignText(t testing.TB, text string) []byte {
	t.Helper()
	var signed bytes.Buffer
	w, err := clearsign.Encode(&signed, s.key.PrivateKey, nil)
	if err == nil {
		_, err = w.Write([]byte(text))
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	return signed.Bytes()
}
