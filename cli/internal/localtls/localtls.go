// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localtls makes certificates for a hub on one machine: an authority, which clients trust,
// and certificates of servers that it signs. kubectl sends credentials only to https servers, so
// even a tunnel on the loopback interface needs one.
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
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/settings"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 365 * 24 * time.Hour
	// renewal is how long before its end a certificate is replaced.
	renewal = 30 * 24 * time.Hour
)

// ErrHost means that a text is neither a host name nor an address.
var ErrHost = errors.New("neither a host name nor an address")

// Pair is a certificate and its private key, each in PEM.
type Pair struct{ Cert, Key []byte }

// Text returns both as one text. Readers of PEM find each in it, so one file can hold the pair, and
// is replaced at once.
func (p Pair) Text() string { return string(p.Key) + string(p.Cert) }

// NewAuthority makes an authority that is valid for ten years.
func NewAuthority(name string, now time.Time) (Pair, error) {
	key, template, err := begin(name, authorityLife, now)
	if err != nil {
		return Pair{}, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	return finish(template, template, key, key)
}

// CheckHosts returns an error that matches [ErrHost] if one of the hosts is invalid.
func CheckHosts(hosts []string) error {
	_, err := namesOf(hosts)
	return err
}

// Sign makes the certificate of a server, for the loopback names and for hosts. It is valid for a
// year. The error matches [ErrHost] if one of the hosts is invalid.
func Sign(authority tls.Certificate, name string, hosts []string, now time.Time) (Pair, error) {
	key, template, err := begin(name, serverLife, now)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	names, err := namesOf(hosts)
	if err != nil {
		return Pair{}, err
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return finish(template, authority.Leaf, key, authority.PrivateKey)
}

// Outlives reports whether an authority is valid longer than what it signs now.
func Outlives(authority tls.Certificate, now time.Time) bool {
	return now.Add(serverLife + renewal).Before(authority.Leaf.NotAfter)
}

// Fits reports whether the certificate of a server is signed by the authority, names the hosts and
// no others, and does not end soon.
func Fits(server, authority tls.Certificate, hosts []string, now time.Time) bool {
	want, err := namesOf(hosts)
	return err == nil && slices.Equal(Names(server.Leaf), want) && now.Add(renewal).Before(server.Leaf.NotAfter) &&
		server.Leaf.CheckSignatureFrom(authority.Leaf) == nil
}

// Names returns the host names and addresses of a certificate, sorted.
func Names(certificate *x509.Certificate) []string {
	names := slices.Clone(certificate.DNSNames)
	for _, ip := range certificate.IPAddresses {
		names = append(names, ip.String())
	}
	slices.Sort(names)
	return names
}

// CertificatePEM returns the certificate of a pair without its key.
func CertificatePEM(pair tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw})
}

// hostName is the form of a host name, in which the first label may be a wildcard.
var hostName = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// namesOf returns the hosts and the loopback names in one spelling, sorted, each once.
func namesOf(hosts []string) ([]string, error) {
	names := []string{"127.0.0.1", "::1", "localhost"}
	for _, host := range hosts {
		name := strings.ToLower(host)
		if ip, err := netip.ParseAddr(name); err == nil {
			name = ip.WithZone("").Unmap().String()
		} else if !hostName.MatchString(name) {
			return nil, fmt.Errorf("%q: %w", host, ErrHost)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// begin makes a key, and a template of its certificate.
func begin(name string, life time.Duration, now time.Time) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	return key, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.Add(life),
	}, nil
}

// finish signs a certificate with the key of its parent.
func finish(template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer any) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}, nil
}

// Files are the paths of the certificates of leat up.
type Files struct {
	CA   string // certificate of the authority that clients trust
	Cert string // the server's certificate
	Key  string // its key
}

// Ensure makes a certificate in dir for the given host names and addresses, besides the loopback
// ones. The authority is made once, because kubeconfigs hold it.
func Ensure(dir string, hosts ...string) (Files, error) {
	files := Files{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "tunnel.pem"), Key: filepath.Join(dir, "tunnel-key.pem"),
	}
	caKey, now := filepath.Join(dir, "ca-key.pem"), time.Now()
	authority, err := tls.LoadX509KeyPair(files.CA, caKey)
	if errors.Is(err, os.ErrNotExist) {
		var made Pair
		if made, err = NewAuthority("leat up", now); err == nil {
			err = made.write(files.CA, caKey)
		}
		if err == nil {
			authority, err = tls.X509KeyPair(made.Cert, made.Key)
		}
	}
	if err == nil {
		var server Pair
		if server, err = Sign(authority, "leat tunnel", slices.DeleteFunc(hosts, isEmpty), now); err == nil {
			err = server.write(files.Cert, files.Key)
		}
	}
	if err != nil {
		return Files{}, fmt.Errorf("make certificates: %w", err)
	}
	return files, nil
}

func isEmpty(text string) bool { return text == "" }

// write writes the certificate last: it marks the pair as complete.
func (p Pair) write(cert, key string) error {
	if err := settings.WriteFile(key, p.Key); err != nil {
		return err
	}
	return settings.WriteFile(cert, p.Cert)
}
