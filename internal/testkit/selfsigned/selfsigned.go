// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfsigned makes certificates for servers of tests on the loopback interface.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is the certificate of a server, and the authority that the server's clients trust.
type Certificate struct {
	Pair tls.Certificate
	// PEM and KeyPEM are the certificate and its private key as text.
	PEM, KeyPEM []byte
}

// New makes a certificate for 127.0.0.1, localhost and these names. It is valid for a day.
func New(t testing.TB, names ...string) Certificate {
	t.Helper()
	return Until(t, time.Now().Add(24*time.Hour), names...)
}

// Until is New for a certificate that ends then, which may have passed.
func Until(t testing.TB, end time.Time, names ...string) Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "leat test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: append([]string{"localhost"}, names...),
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, errDER := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	keyDER, errKey := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(errDER, errKey); err != nil {
		t.Fatalf("make certificate: %v", err)
	}
	return Certificate{
		Pair:   tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		PEM:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// Roots returns the pool of a client that trusts the certificate.
func (c Certificate) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.PEM)
	return roots
}

// Write writes tls.crt, tls.key and ca.crt into dir, named as in a Secret of the type
// kubernetes.io/tls, and returns the paths of the first two.
func (c Certificate) Write(t testing.TB, dir string) (certFile, keyFile string) {
	t.Helper()
	for name, content := range map[string][]byte{"tls.crt": c.PEM, "tls.key": c.KeyPEM, "ca.crt": c.PEM} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatalf("write certificate: %v", err)
		}
	}
	return filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
}
