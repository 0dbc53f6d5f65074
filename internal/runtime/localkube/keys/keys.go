// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package keys makes the keys and certificates of a control plane, in a folder of its own, and the
// kubeconfig of its administrator.
//
// They are made once, whole or not at all, and are good for ten years.
package keys

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
	"net"
	"os"
	"path/filepath"
	"time"
)

// Dir is the folder of a control plane's keys and certificates.
type Dir string

// Path returns the path of the file of a name.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

// Names of the files in a [Dir]. Private keys are in PKCS #8.
const (
	CACert     = "ca.crt"
	caKey      = "ca.key"
	ServerCert = "apiserver.crt"
	ServerKey  = "apiserver.key"
	AdminCert  = "admin.crt"
	AdminKey   = "admin.key"
	AccountKey = "service-accounts.key" // signs service account tokens
	AccountPub = "service-accounts.pub" // verifies them
)

// ServiceIP is the address of the service kubernetes.default inside the cluster, at which the API
// server has to be trusted. It is not routed.
const ServiceIP = "10.0.0.1"

// certificateLife is long because nothing renews these certificates, and
// nothing outside the loopback interface trusts them.
const certificateLife = 10 * 365 * 24 * time.Hour

// Ensure returns the Dir at dir, and creates it if necessary. It appears whole or not at all.
func Ensure(dir string) (Dir, error) {
	if _, err := os.Stat(dir); err == nil {
		return Dir(dir), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("open certificates: %w", err)
	}
	if err := makePKI(dir); err != nil {
		return "", fmt.Errorf("make certificates: %w", err)
	}
	return Dir(dir), nil
}

func makePKI(dir string) error {
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.MkdirAll(unfinished, 0o700); err != nil {
		return err
	}
	if err := Dir(unfinished).fill(); err != nil {
		return err
	}
	return os.Rename(unfinished, dir)
}

// fill makes an authority, the certificates of the API server and of an administrator, and the key
// of service accounts.
func (d Dir) fill() error {
	ca, err := d.issue(CACert, caKey, nil, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "leat-local-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	if err != nil {
		return err
	}
	_, err = d.issue(ServerCert, ServerKey, ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(ServiceIP)},
	})
	if err != nil {
		return err
	}
	// The API server allows members of this group everything.
	_, err = d.issue(AdminCert, AdminKey, ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "leat-local-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	account, err := d.newKey(AccountKey)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(account.Public())
	if err != nil {
		return err
	}
	return d.writePEM(AccountPub, "PUBLIC KEY", public)
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// issue makes a key and a certificate for it from the template, signed by ca, and writes both. Nil:
// the certificate signs itself. The certificate is returned as an authority.
func (d Dir) issue(certName, keyName string, ca *authority, template *x509.Certificate) (*authority, error) {
	key, err := d.newKey(keyName)
	if err != nil {
		return nil, err
	}
	if ca == nil {
		ca = &authority{cert: template, key: key}
	}
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of virtual machines jump
	template.NotAfter = time.Now().Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, d.writePEM(certName, "CERTIFICATE", der)
}

// newKey makes a private key, and writes it.
func (d Dir) newKey(name string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, d.writePEM(name, "PRIVATE KEY", der)
}

func (d Dir) writePEM(name, kind string, der []byte) error {
	return os.WriteFile(d.Path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
