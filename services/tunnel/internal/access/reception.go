// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/ed25519"
	"fmt"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/services/tunnel/internal/dialout"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
)

// Reception lists the agents to dial, and obtains the hub's tokens for them, through the
// distributor's ReceptionService.
type Reception struct {
	client distributorv1connect.ReceptionServiceClient
}

var (
	_ receptive.Directory = (*Reception)(nil)
	_ dialout.Voucher     = (*Reception)(nil)
)

// NewReception returns a Reception that asks through client, which carries a service's token.
func NewReception(client distributorv1connect.ReceptionServiceClient) *Reception {
	return &Reception{client: client}
}

// List implements [receptive.Directory].
func (r *Reception) List(ctx context.Context, known string) ([]receptive.Cluster, string, error) {
	res, err := r.client.ListReceptiveClusters(ctx, &distributorv1.ListReceptiveClustersRequest{KnownVersion: known})
	if err != nil {
		return nil, "", fmt.Errorf("ask distributor which agents to dial: %w", err)
	}
	clusters := make([]receptive.Cluster, 0, len(res.GetClusters()))
	for _, c := range res.GetClusters() {
		if n := len(c.GetAgentKey()); n != 0 && n != ed25519.PublicKeySize {
			continue // a key that cannot be compared must not count as none
		}
		clusters = append(clusters, receptive.Cluster{
			Name: c.GetCluster(), UID: c.GetClusterUid(), Endpoint: c.GetAgentEndpoint(), Key: c.GetAgentKey(), IdentityUID: c.GetIdentityUid(),
		})
	}
	return clusters, res.GetVersion(), nil
}

// HubToken implements [dialout.Voucher].
func (r *Reception) HubToken(ctx context.Context, cluster string, agentKey ed25519.PublicKey) (string, error) {
	res, err := r.client.CreateHubToken(ctx, &distributorv1.CreateHubTokenRequest{Cluster: cluster, AgentKey: agentKey})
	if err != nil {
		return "", fmt.Errorf("ask distributor for a token to dial the agent with: %w", err)
	}
	return res.GetToken(), nil
}
