// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// probe runs the health check with the environment of a service.
func probe(t *testing.T, p *serve.Probe, env map[string]string) error {
	t.Helper()
	set := config.New("test health", func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	p.Bind(set)
	if err := set.Parse(nil); err != nil {
		t.Fatalf("parse: %v", err)
	}
	return p.Run(t.Context())
}

func TestProbeReportsReadiness(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]bool{"ready": false, "not ready": true} {
		health := serve.NewHealth()
		health.Register("redis", func(context.Context) error { return nil })
		health.Register("sql", func(context.Context) error {
			if failing {
				return errDown
			}
			return nil
		})
		server := httptest.NewServer(newMux(t, health, io.Discard))
		t.Cleanup(server.Close)
		_, port, err := net.SplitHostPort(server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		// A service listens on every address, and some on one: both forms have to find it.
		for _, addr := range []string{":" + port, "0.0.0.0:" + port, "127.0.0.1:" + port} {
			err := probe(t, &serve.Probe{}, map[string]string{"LEAT_INTERNAL_LISTEN_ADDR": addr})
			if failing != (err != nil) {
				t.Errorf("%s at %s: got %v", name, addr, err)
			}
			if failing && !strings.Contains(err.Error(), "redis: ok, sql: failed") {
				t.Errorf("%s: got %v, want the names of the checks", name, err)
			}
		}
	}
}

func TestProbeWithoutAService(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := probe(t, &serve.Probe{}, map[string]string{"LEAT_INTERNAL_LISTEN_ADDR": addr}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("nobody listens: got %v", err)
	}
	none := &serve.Probe{Only: &serve.Config{}}
	if err := probe(t, none, map[string]string{"LEAT_LISTEN_ADDR": "nowhere"}); err == nil {
		t.Error("an address without a port: got no error")
	}
}

// TestProbeOfTheOnlyListener is the agent's form: health is on its one listener, which may have a
// certificate for any name.
func TestProbeOfTheOnlyListener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile, _ := certificate(t, dir)
	healthy := newMux(t, serve.NewHealth(), io.Discard)
	for name, cfg := range map[string]serve.Config{
		"plain": {}, "with a certificate": {TLSCertFile: certFile, TLSKeyFile: keyFile},
	} {
		server := start(t, cfg, healthy)
		only := &serve.Config{ListenAddr: ":8703"}
		err := probe(t, &serve.Probe{Only: only}, map[string]string{
			"LEAT_LISTEN_ADDR": server.addr, "LEAT_TLS_CERT_FILE": cfg.TLSCertFile, "LEAT_TLS_KEY_FILE": cfg.TLSKeyFile,
		})
		if err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	otherCert, otherKey, _ := certificate(t, t.TempDir())
	server := start(t, serve.Config{TLSCertFile: certFile, TLSKeyFile: keyFile}, http.NotFoundHandler())
	err := probe(t, &serve.Probe{Only: &serve.Config{}}, map[string]string{
		"LEAT_LISTEN_ADDR": server.addr, "LEAT_TLS_CERT_FILE": otherCert, "LEAT_TLS_KEY_FILE": otherKey,
	})
	if err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("another certificate: got %v, want it refused", err)
	}
}
