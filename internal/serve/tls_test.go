// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/testkit/offline"
)

// certificate writes a new self-signed certificate for 127.0.0.1 into dir, and returns its two
// files and itself.
func certificate(t *testing.T, dir string) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"leat.test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("create certificate: %v", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encode key: %v", err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeFile(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	writeFile(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	roots = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("parse certificate: %v", err)
	}
	roots.AddCert(parsed)
	return certFile, keyFile, roots
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatalf("write %s: %v", path, err)
	}
}

func TestTLSSpeaksBothProtocols(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t, t.TempDir())
	server := start(t, serve.Config{TLSCertFile: certFile, TLSKeyFile: keyFile}, http.HandlerFunc(protocol))
	for want, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		transport := offline.Transport()
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(!http2)
		transport.Protocols.SetHTTP2(http2)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "leat.test", MinVersion: tls.VersionTLS12}
		t.Cleanup(transport.CloseIdleConnections)
		if _, got := get(t, &http.Client{Transport: transport}, "https://"+server.addr); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestTLSWithoutFilesFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile, _ := certificate(t, dir)
	broken := filepath.Join(dir, "broken")
	writeFile(t, broken, []byte("no PEM"))
	for name, cfg := range map[string]serve.Config{
		"absent": {TLSCertFile: filepath.Join(dir, "absent"), TLSKeyFile: keyFile},
		"broken": {TLSCertFile: certFile, TLSKeyFile: broken},
	} {
		cfg.Listener = listen(t)
		if err := serve.Run(t.Context(), refusing(cfg)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
