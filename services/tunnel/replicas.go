// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/api"
	"github.com/leatdev/leat/services/tunnel/internal/hop"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
	"github.com/leatdev/leat/services/tunnel/internal/redisroute"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// replicas holds the parts with which this replica works with others. Without Redis, store and
// peers are nil.
type replicas struct {
	self  relay.Replica
	store *redisroute.Store
	peers *hop.Client
}

// openReplicas does not connect yet.
func openReplicas(cfg Config, key *identity.ServiceKey, tel *telemetry.Telemetry) (*replicas, error) {
	r := &replicas{self: relay.Replica{ID: strings.ToLower(rand.Text()[:16]), URL: strings.TrimRight(cfg.AdvertiseURL, "/")}}
	if cfg.RedisURL == "" {
		return r, nil
	}
	ca, err := readCA(cfg.PeerCAFile)
	if err != nil {
		return nil, fmt.Errorf("read replicas' CA: %w", err)
	}
	if r.peers, err = hop.NewClient(hop.ClientParams{
		Self: r.self.ID, Key: key, Plaintext: cfg.Service.Plaintext, CAPEM: ca, ServerName: cfg.PeerServerName, Tracer: tel.Tracer(scope), Propagator: tel.Propagator(),
	}); err != nil {
		return nil, err
	}
	secrets, err := cfg.Service.Secrets()
	if err != nil {
		return nil, err
	}
	if r.store, err = redisroute.Open(cfg.RedisURL, cfg.RedisCAFile, secrets[0], secrets[1:]...); err != nil {
		return nil, err
	}
	return r, nil
}

// readCA returns the content of a file, and nil for an empty name.
func readCA(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file)
}

func (r *replicas) close() {
	if r.store != nil {
		r.peers.Close()
		_ = r.store.Close() // nothing is written any more
	}
}

// params returns the parameters of the router.
func (r *replicas) params(table *session.Table, logger *slog.Logger) relay.Params {
	params := relay.Params{Table: table, Self: r.self, Logger: logger.With(slog.String("replica", r.self.ID))}
	if r.store != nil {
		params.Store, params.Peers = r.store, r.peers
	}
	return params
}

// share completes the parameters of the keeper with what replicas share.
func (r *replicas) share(params receptive.Params) receptive.Params {
	params.Self = r.self.ID
	if r.store != nil {
		params.Group, params.Leases = r.store.Group(receptive.GroupAge), r.store.Leases()
	}
	return params
}

// others returns the other live replicas.
func (r *replicas) others(ctx context.Context) ([]api.Peer, error) {
	if r.store == nil {
		return api.Alone(ctx)
	}
	live, err := r.store.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var peers []api.Peer
	for _, replica := range live {
		if replica.ID == r.self.ID {
			continue
		}
		caller, base, err := r.peers.Caller(replica)
		if err != nil {
			return nil, err
		}
		peers = append(peers, api.Peer{Replica: replica.ID, Client: tunnelv1connect.NewTunnelServiceClient(caller, base)})
	}
	return peers, nil
}
