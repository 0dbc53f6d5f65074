// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localtls makes certificates for a hub on one machine. kubectl sends credentials only to
// https servers, so even a tunnel on the loopback interface needs one.
package localtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/cli/internal/settings"
)

// Files are the paths of the certificates.
type Files struct {
	CA   string // certificate of the authority that clients trust
	Cert string // the server's certificate
	Key  string // its key
}

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 365 * 24 * time.Hour // a new one is made at every start
)

// Ensure makes a certificate in dir for the given host names and addresses, besides the loopback
// ones. The authority is made once, because kubeconfigs hold it.
func Ensure(dir string, hosts ...string) (Files, error) {
	files := Files{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "tunnel.pem"), Key: filepath.Join(dir, "tunnel-key.pem"),
	}
	authority, err := loadAuthority(dir)
	if errors.Is(err, os.ErrNotExist) {
		if err = makeAuthority(dir); err == nil {
			authority, err = loadAuthority(dir)
		}
	}
	if err != nil {
		return Files{}, fmt.Errorf("make certificates: %w", err)
	}
	if err := sign(authority, files, hosts); err != nil {
		return Files{}, fmt.Errorf("make certificates: %w", err)
	}
	return files, nil
}

func loadAuthority(dir string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem"))
}

func makeAuthority(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate("leat up", authorityLife)
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	// Write the certificate last: it marks the authority as complete.
	if err := writeKey(filepath.Join(dir, "ca-key.pem"), key); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "ca.pem"), "CERTIFICATE", der)
}

// sign makes the server's key, and its certificate for the loopback names and the given ones.
func sign(authority tls.Certificate, files Files, hosts []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate("leat tunnel", serverLife)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range append(hosts, "127.0.0.1", "::1", "localhost") {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return err
	}
	if err := writeKey(files.Key, key); err != nil {
		return err
	}
	return writePEM(files.Cert, "CERTIFICATE", der)
}

func newTemplate(name string, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.Add(life),
	}, nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return settings.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
