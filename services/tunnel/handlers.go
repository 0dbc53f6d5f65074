// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/crossorigin"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/api"
	"github.com/leatdev/leat/services/tunnel/internal/hop"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// service is TunnelService as the public listener serves it: what people ask, and what agents do.
type service struct {
	*api.Service
	*reverse.Handler
}

// newPublic returns the handler of the listener for people and agents.
func newPublic(
	cfg Config, people *kubeproxy.Handler, agents *reverse.Handler, asked *api.Service, keys identity.Verifier, tel *telemetry.Telemetry,
) (http.Handler, error) {
	server, err := rpc.NewServer(rpc.ServerParams{Telemetry: tel, Logger: tel.Logger(), Verifier: keys})
	if err != nil {
		return nil, err
	}
	pages, err := crossorigin.New(cfg.AllowedOrigins)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(reverse.Path, agents)
	path, handler := tunnelv1connect.NewTunnelServiceHandler(service{Service: asked, Handler: agents},
		append(server.Options(), reverse.Uncompressed())...)
	mux.Handle(path, server.Guard(reverse.WithDeadlines(handler)))
	mux.Handle(tunnelv1connect.TunnelServiceGetRecordingProcedure,
		serve.CutStalled(server.Guard(handler), cfg.StallTimeout))
	return kubeproxy.ByHost(cfg.ClusterDomain, pages.Wrap(route(kubeproxy.Matches, people, mux))), nil
}

// peerService is TunnelService without the procedures for agents.
type peerService struct{ *api.Service }

// Connect implements TunnelService: agents connect to the public listener.
func (peerService) Connect(context.Context, *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error {
	return rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED,
		"agents connect to the tunnel's public listener")
}

// newPeers returns the handler of the listener for other replicas. It carries out the requests that
// they pass on, and lists this replica's sessions and recordings. It refuses all other callers,
// even other services of the hub.
func newPeers(
	self relay.Replica, keys *identity.ServiceKeys, asked *api.Service, table *session.Table, sink audit.Sink, tel *telemetry.Telemetry,
) (http.Handler, error) {
	verifier := keys.Verifier([]string{identity.ServiceTunnel},
		identity.ReplicaAudience(identity.ServiceTunnel, self.ID))
	server, err := rpc.NewServer(rpc.ServerParams{Telemetry: tel, Logger: tel.Logger(), Verifier: verifier})
	if err != nil {
		return nil, err
	}
	hops := hop.NewHandler(hop.Deps{
		Self: self, Verifier: verifier, Table: table, Sink: sink, Logger: tel.Logger(), Tracer: tel.Tracer(scope), Propagator: tel.Propagator(),
	})
	mux := http.NewServeMux()
	path, handler := tunnelv1connect.NewTunnelServiceHandler(peerService{Service: asked}, server.Options()...)
	mux.Handle(path, server.Guard(handler))
	return route(hop.Matches, hops, mux), nil
}

// newInternal returns the handler for probes and scrapes. The replica is unready as soon as it
// begins to drain, while it still serves.
func newInternal(table *session.Table, tel *telemetry.Telemetry) http.Handler {
	health := serve.NewHealth()
	health.Register("draining", func(context.Context) error {
		if wake.IsClosed(table.Draining()) {
			return errors.New("the replica is shutting down")
		}
		return nil
	})
	return serve.NewInternal(serve.InternalParams{
		Health: health, Telemetry: tel, Services: []string{tunnelv1connect.TunnelServiceName},
	})
}

// route returns a handler that sends requests that match to matching. The mux would clean their
// paths and redirect.
func route(matches func(*http.Request) bool, matching, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if matches(r) {
			matching.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}
