// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestTLS opens the tunnel and uses it over TLS, where HTTP/2 is what servers choose unless the agent offers less.
func TestTLS(t *testing.T) {
	certFile, keyFile, roots := selfSigned(t)
	h := startHub(t, func(cfg *tunnel.Config) { cfg.Serve.TLSCertFile, cfg.Serve.TLSKeyFile = certFile, keyFile })
	h.access.grant("ada", "demo")
	agenttest.Connect(t, agenttest.Options{
		Addr: h.addr, Token: h.cluster("demo"), ID: "tls", Handler: http.HandlerFunc(echo),
		TLS: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}},
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport}
	var status int
	var body string
	h.await("the agent's connection", func() bool {
		req := h.request(t.Context(), http.MethodGet, "ada", "demo", "/api", nil)
		req.URL.Scheme = "https"
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		content, _ := io.ReadAll(res.Body)
		status, body = res.StatusCode, string(content)
		return status != http.StatusServiceUnavailable
	})
	if status != http.StatusOK || body != "GET /api " {
		t.Errorf("got %d %q, want 200", status, body)
	}
}

// selfSigned writes a certificate for 127.0.0.1.
func selfSigned(tb testing.TB) (certFile, keyFile string, roots *x509.CertPool) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	certFile, keyFile = filepath.Join(tb.TempDir(), "cert.pem"), filepath.Join(tb.TempDir(), "key.pem")
	for file, content := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, roots
}
