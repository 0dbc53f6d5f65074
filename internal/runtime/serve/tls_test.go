// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/testkit/offline"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// certificate writes a new certificate for leat.test into dir, and returns its two files and the
// pool that trusts it.
func certificate(t *testing.T, dir string) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	made := selfsigned.New(t, "leat.test")
	certFile, keyFile = made.Write(t, dir)
	return certFile, keyFile, made.Roots()
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
