// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the folder of a control plane's keys and certificates.
type pki string

func (d pki) path(name string) string { return filepath.Join(string(d), name) }

// Names of the files in a pki. Private keys are in PKCS #8.
const (
	caCert     = "ca.crt"
	caKey      = "ca.key"
	serverCert = "apiserver.crt"
	serverKey  = "apiserver.key"
	adminCert  = "admin.crt"
	adminKey   = "admin.key"
	accountKey = "service-accounts.key" // signs service account tokens
	accountPub = "service-accounts.pub" // verifies them
)

// certificateLife is long because nothing renews these certificates, and
// nothing outside the loopback interface trusts them.
const certificateLife = 10 * 365 * 24 * time.Hour

// ensurePKI returns the pki in dir, and creates it if necessary. It appears whole or not at all.
func ensurePKI(dir string) (pki, error) {
	if _, err := os.Stat(dir); err == nil {
		return pki(dir), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("open certificates: %w", err)
	}
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", fmt.Errorf("make certificates: %w", err)
	}
	if err := os.MkdirAll(unfinished, 0o700); err != nil {
		return "", fmt.Errorf("make certificates: %w", err)
	}
	if err := pki(unfinished).fill(); err != nil {
		return "", fmt.Errorf("make certificates: %w", err)
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return "", fmt.Errorf("make certificates: %w", err)
	}
	return pki(dir), nil
}

func (d pki) fill() error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := d.write(caCert, caKey, ca.cert.Raw, ca.key); err != nil {
		return err
	}
	if err := d.issue(ca, serverCert, serverKey, serverTemplate()); err != nil {
		return err
	}
	// The API server allows members of this group everything.
	admin := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "leat-local-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if err := d.issue(ca, adminCert, adminKey, admin); err != nil {
		return err
	}
	account, err := newKey()
	if err != nil {
		return err
	}
	if err := d.writeKey(accountKey, account); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(account.Public())
	if err != nil {
		return err
	}
	return d.writePEM(accountPub, "PUBLIC KEY", public)
}

func serverTemplate() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)},
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority() (authority, error) {
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "leat-local-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return authority{cert: cert, key: key}, err
}

// issue makes a key and a certificate for it, signed by ca and filled from template.
func (d pki) issue(ca authority, certName, keyName string, template *x509.Certificate) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := sign(template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	return d.write(certName, keyName, der, key)
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// sign fills in the template's serial number and validity, and signs it.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of virtual machines jump
	template.NotAfter = time.Now().Add(certificateLife)
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

func (d pki) write(certName, keyName string, der []byte, key crypto.Signer) error {
	if err := d.writePEM(certName, "CERTIFICATE", der); err != nil {
		return err
	}
	return d.writeKey(keyName, key)
}

func (d pki) writeKey(name string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return d.writePEM(name, "PRIVATE KEY", der)
}

func (d pki) writePEM(name, kind string, der []byte) error {
	return os.WriteFile(d.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
