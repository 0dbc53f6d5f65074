// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ListReceptiveClusters implements ReceptionService. It is answered from memory.
func (s *Reception) ListReceptiveClusters(
	ctx context.Context, req *distributorv1.ListReceptiveClustersRequest,
) (*distributorv1.ListReceptiveClustersResponse, error) {
	if err := checkTunnel(ctx); err != nil {
		return nil, err
	}
	res := &distributorv1.ListReceptiveClustersResponse{}
	version := sha256.New()
	for _, c := range s.view.Catalog.Receptive() {
		row := &distributorv1.ReceptiveCluster{
			Cluster: c.Name, ClusterUid: c.UID, AgentEndpoint: c.Spec.AgentEndpoint, AgentKey: c.Agent.PublicKey,
			IdentityUid: admission.IdentityUID(c.UID, c.Agent.KeyGeneration),
		}
		_, _ = fmt.Fprintf(version, "%q %q %q %x %q\n", row.GetCluster(), row.GetClusterUid(), row.GetAgentEndpoint(), row.GetAgentKey(), row.GetIdentityUid())
		res.Clusters = append(res.Clusters, row)
	}
	res.Version = hex.EncodeToString(version.Sum(nil))
	if res.GetVersion() == req.GetKnownVersion() {
		res.Unchanged, res.Clusters = true, nil
	}
	return res, nil
}

// CreateHubToken implements ReceptionService. Where an agent has enrolled, no other key is vouched
// to: the caller has pinned it, and a mistake there must not be enough.
func (s *Reception) CreateHubToken(ctx context.Context, req *distributorv1.CreateHubTokenRequest) (*distributorv1.CreateHubTokenResponse, error) {
	if err := checkTunnel(ctx); err != nil {
		return nil, err
	}
	if len(req.GetAgentKey()) != ed25519.PublicKeySize {
		return nil, rpcerr.Field("agent_key", "must be a raw Ed25519 public key of 32 bytes")
	}
	cluster, ok := s.view.Catalog.Cluster(req.GetCluster())
	if !ok || cluster.Spec.AgentEndpoint == "" {
		return nil, wire.Error(&catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindCluster, Name: req.GetCluster()}})
	}
	key := ed25519.PublicKey(req.GetAgentKey())
	if cluster.Agent.Enrolled() && !cluster.Agent.PublicKey.Equal(key) {
		return nil, wire.Denied("another key is enrolled for the cluster's agent")
	}
	caller, _ := identity.FromContext(ctx)
	token, err := s.issuer.IssueHubToken(caller, cluster.UID, key)
	if err != nil {
		return nil, err
	}
	return &distributorv1.CreateHubTokenResponse{Token: token}, nil
}
