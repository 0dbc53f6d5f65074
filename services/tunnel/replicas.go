// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/api"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/hop"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
	"github.com/leatdev/leat/services/tunnel/internal/redisroute"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// replicas is what this replica needs for others. Without Redis all but self is nil.
type replicas struct {
	self  relay.Replica
	store *redisroute.Store
	peers *hop.Client
}

// openReplicas connects to nothing yet.
func openReplicas(cfg Config, key *identity.ServiceKey, tel *telemetry.Telemetry) (*replicas, error) {
	r := &replicas{self: relay.Replica{ID: strings.ToLower(rand.Text()[:16]), URL: strings.TrimRight(cfg.AdvertiseURL, "/")}}
	if cfg.RedisURL == "" {
		return r, nil
	}
	params := hop.ClientParams{
		Self: r.self.ID, Key: key, Plaintext: cfg.Service.Plaintext, Tracer: tel.Tracer(scope), Propagator: tel.Propagator(),
	}
	var err error
	if cfg.PeerCAFile != "" {
		if params.CAPEM, err = os.ReadFile(cfg.PeerCAFile); err != nil {
			return nil, fmt.Errorf("read replicas' CA: %w", err)
		}
	}
	if r.peers, err = hop.NewClient(params); err != nil {
		return nil, err
	}
	if r.store, err = redisroute.Open(cfg.RedisURL, cfg.RedisCAFile, []byte(cfg.Service.Secret.Reveal())); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *replicas) close() {
	if r.store != nil {
		r.peers.Close()
		_ = r.store.Close() // nothing is written any more
	}
}

func (r *replicas) params(table *session.Table, logger *slog.Logger) relay.Params {
	params := relay.Params{Table: table, Self: r.self, Logger: logger.With(slog.String("replica", r.self.ID))}
	if r.store != nil {
		params.Store, params.Peers = r.store, r.peers
	}
	return params
}

// handler returns the handler for other replicas: it carries out the requests that they pass on, and lists this
// replica's sessions and recordings. It refuses all other callers, even other services of the hub. It is nil if there
// are no other replicas.
func (r *replicas) handler(
	keys *identity.ServiceKeys, asked *api.Service, table *session.Table, sink audit.Sink, tel *telemetry.Telemetry,
) (http.Handler, error) {
	if r.store == nil {
		return nil, nil
	}
	verifier := keys.Verifier([]string{identity.ServiceTunnel}, identity.ReplicaAudience(identity.ServiceTunnel, r.self.ID))
	hops := hop.NewHandler(hop.Deps{
		Self: r.self, Verifier: verifier, Table: table, Sink: sink, Logger: tel.Logger(), Tracer: tel.Tracer(scope), Propagator: tel.Propagator(),
	})
	server, err := rpc.NewServer(rpc.ServerParams{Telemetry: tel, Logger: tel.Logger(), Verifier: verifier})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	path, handler := tunnelv1connect.NewTunnelServiceHandler(peerService{Service: asked}, server.Options()...)
	mux.Handle(path, server.Guard(handler))
	return route(hop.Matches, hops, mux), nil
}

// peerService is TunnelService without the procedures for agents.
type peerService struct{ *api.Service }

// Connect implements TunnelService: agents connect to the public listener.
func (peerService) Connect(context.Context, *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error {
	return rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED, "agents connect to the tunnel's public listener")
}

// health is unready as soon as the replica begins to end, while it still serves.
func health(table *session.Table) *serve.Health {
	h := serve.NewHealth()
	h.Register("draining", func(context.Context) error {
		select {
		case <-table.Draining():
			return errors.New("the replica is shutting down")
		default:
			return nil
		}
	})
	return h
}

// moveShare is the part of the drain timeout that agents have to connect elsewhere, while people are served as before.
const moveShare = 0.4

// running is what [run] brings to an end.
type running struct {
	// peers answers other replicas; nil if there are none.
	peers   http.Handler
	router  *relay.Router
	keeper  *receptive.Keeper
	handler http.Handler
	// internal answers probes and scrapes.
	internal http.Handler
	logger   *slog.Logger
	meter    metric.Meter
	// ending is called when nothing new is taken any more, and ended waits for the rest.
	ending, ended func()
}

// run serves until ctx ends, and then drains: first the agents move, then the server ends, and last of all the routes.
func run(ctx context.Context, cfg Config, r running) error {
	total := cfg.drainTimeout()
	move := time.Duration(0)
	if cfg.RedisURL != "" {
		move = time.Duration(float64(total) * moveShare)
	}
	cfg.Serve.DrainTimeout = total - move
	cfg.Serve.PingAfter = cfg.heardWithin()
	cfg.Serve.ReceiveWindow = kubeproxy.UploadWindow
	group, ctx := errgroup.WithContext(ctx)
	routing, stopRouting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRouting()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	group.Go(func() error { return r.router.Run(routing) })
	group.Go(func() error { return r.keeper.Run(routing) })
	if r.peers != nil {
		group.Go(func() error { return serve.Run(serving, cfg.peerParams(r)) })
	}
	served := make(chan struct{})
	group.Go(func() error {
		defer close(served)
		return serve.Run(serving, serve.Params{
			Config: cfg.Serve, Public: r.handler, Internal: r.internal, Logger: r.logger, Meter: r.meter,
		})
	})
	group.Go(func() error {
		defer stopRouting()
		<-ctx.Done()
		draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), total)
		defer cancel()
		r.router.Drain(draining, move, func() {
			r.ending()
			stopServing()
		})
		r.ended()
		<-served // until then somebody may ask for a cluster that only other replicas reach
		return nil
	})
	return group.Wait()
}

// A replica has few connections, and is near: see ADR 0024.
const (
	peerWindow  = 1 << 20
	peerStreams = 1000
)

// peerParams returns the parameters of the server for other replicas.
func (c *Config) peerParams(r running) serve.Params {
	return serve.Params{
		Config: serve.Config{
			ListenAddr: cmp.Or(c.PeerListenAddr, defaultPeerListenAddr), Listener: c.PeerListener,
			TLSCertFile: c.Serve.TLSCertFile, TLSKeyFile: c.Serve.TLSKeyFile,
			DrainTimeout: c.Serve.DrainTimeout, PingAfter: c.Serve.PingAfter,
			ReceiveWindow: peerWindow, MaxStreams: peerStreams,
		},
		Public: r.peers, Logger: r.logger,
	}
}

// checkReplicas says what is wrong with the settings for several replicas.
func (c *Config) checkReplicas() error {
	if c.RedisURL == "" && c.AdvertiseURL == "" {
		return nil
	}
	if c.RedisURL == "" {
		return config.Missing("redis-url")
	}
	if c.AdvertiseURL == "" {
		return config.Missing("tunnel-advertise-url")
	}
	u, err := url.Parse(c.AdvertiseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return errors.New("--tunnel-advertise-url must be http://host:port or https://host:port, without a path")
	}
	return nil
}
