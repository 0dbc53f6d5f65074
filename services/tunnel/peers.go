// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"

	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/services/tunnel/internal/api"
)

// others finds the other live replicas, for what they are asked themselves.
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
