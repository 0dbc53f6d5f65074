// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// TestSecHopsCheckTheServersName sends a request to a replica that is known by its address. Its
// certificate must have the configured name, whatever else it has.
func TestSecHopsCheckTheServersName(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 3) // the name that a client has asked for
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.TLS.ServerName }))
	server.EnableHTTP2 = true
	server.StartTLS() // with a certificate for example.com and 127.0.0.1
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, c := range []struct {
		name    string
		refused bool
	}{{name: ""}, {name: "example.com"}, {name: "tunnel.leat.svc", refused: true}} {
		client, err := NewClient(ClientParams{
			Self: "first", Key: hubkeys.Key(ServiceName), CAPEM: ca, ServerName: c.name,
			Tracer: noop.NewTracerProvider().Tracer("test"), Propagator: propagation.TraceContext{},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kubernetes/api/v1/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.RoundTrip(req, relay.Route{Replica: relay.Replica{ID: "second", URL: server.URL}},
			relay.Target{Target: session.Target{Cluster: "demo"}})
		if err == nil {
			_ = res.Body.Close()
		}
		if refused := errors.As(err, new(*tls.CertificateVerificationError)); refused != c.refused {
			t.Fatalf("%q: got %v, want its certificate refused: %t", c.name, err, c.refused)
		}
		if c.refused {
			continue
		}
		if got := <-asked; got != c.name {
			t.Errorf("%q: asked for %q", c.name, got)
		}
	}
}
