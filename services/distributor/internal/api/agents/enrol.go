// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"crypto/ed25519"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Enroll implements DistributorService.
func (s *Service) Enroll(ctx context.Context, req *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	switch {
	case req.GetJoinToken() == "":
		return nil, rpcerr.Field("join_token", "is required")
	case len(req.GetPublicKey()) != ed25519.PublicKeySize:
		return nil, rpcerr.Field("public_key", "must be a raw Ed25519 public key of 32 bytes")
	case len(req.GetAgentVersion()) > wire.MaxText:
		return nil, rpcerr.Field("agent_version", "is too long")
	}
	// A guessed token is rejected here. It does not take a place at the gate or cost an edit, which would delay other
	// agents.
	hash := admission.Hash(req.GetJoinToken())
	switch wait, err := s.d.JoinTokens.Admit(ctx, hash, req.GetPublicKey()); {
	case err != nil:
		return nil, wire.Error(err)
	case wait > 0:
		return nil, tooOften("the join token is used too often", wait)
	}
	if wait, ok := s.d.Joins.Enter(); !ok {
		return nil, crowded(wait)
	}
	cluster, err := s.d.Enrolments.Enrol(ctx, hash, req.GetPublicKey(), req.GetAgentVersion())
	if err != nil {
		s.d.JoinTokens.Refused(hash)
		return nil, wire.Error(err)
	}
	identity.Verified(ctx)
	// Should the database have gone since, the monitor catches up.
	_ = s.d.View.Refresh(ctx)
	return &distributorv1.EnrollResponse{Cluster: cluster.Name, ClusterUid: cluster.UID, TunnelUrl: s.d.TunnelURL}, nil
}

// errNoKey is one reason to refuse an assertion. Callers learn only that it is refused.
var errNoKey = errors.New("cluster has no key")

// RefreshToken implements DistributorService.
func (s *Service) RefreshToken(ctx context.Context, req *distributorv1.RefreshTokenRequest) (*distributorv1.RefreshTokenResponse, error) {
	if req.GetAssertion() == "" {
		return nil, rpcerr.Field("assertion", "is required")
	}
	cluster, spent, err := s.assertedLookingTwice(ctx, req.GetAssertion())
	if err != nil {
		return nil, err
	}
	switch wait, err := s.d.Replay.Spend(cluster.UID, spent); {
	case errors.Is(err, admission.ErrTooOften):
		return nil, tooOften("the agents of this cluster ask for tokens too often", wait)
	case err != nil:
		return nil, keyRejected()
	}
	identity.Verified(ctx)
	// Whoever comes this far is an agent: strangers cannot crowd it out.
	if wait, ok := s.d.Tokens.Enter(); !ok {
		return nil, crowded(wait)
	}
	id := identity.Identity{
		Kind: identity.KindCluster, Name: cluster.Name,
		UID: admission.IdentityUID(cluster.UID, cluster.Agent.KeyGeneration),
	}
	token, expires, err := s.d.Issuer.Issue(id, identity.ServiceDistributor, admission.AccessTokenLife)
	if err != nil {
		return nil, err
	}
	forTunnel, _, err := s.d.Issuer.Issue(id, identity.ServiceTunnel, admission.AccessTokenLife)
	if err != nil {
		return nil, err
	}
	return &distributorv1.RefreshTokenResponse{
		AccessToken: token, TunnelToken: forTunnel, ExpireTime: timestamppb.New(expires), TunnelUrl: s.d.TunnelURL,
	}, nil
}

// assertedLookingTwice verifies the assertion, and returns its cluster and its id. Before it rejects an assertion, it
// checks whether another replica has just enrolled the key.
func (s *Service) assertedLookingTwice(ctx context.Context, assertion string) (*catalog.Cluster, string, error) {
	if cluster, id, err := s.asserted(ctx, assertion); err == nil {
		return cluster, id, nil
	}
	s.d.View.Look(ctx)
	cluster, id, err := s.asserted(ctx, assertion)
	if err != nil {
		return nil, "", keyRejected()
	}
	return cluster, id, nil
}

func (s *Service) asserted(ctx context.Context, assertion string) (*catalog.Cluster, string, error) {
	var cluster *catalog.Cluster
	_, id, err := identity.VerifyAssertion(ctx, assertion, func(_ context.Context, name string) (ed25519.PublicKey, error) {
		c, ok := s.d.View.Cluster(name)
		if !ok || !c.Agent.Enrolled() {
			return nil, errNoKey
		}
		cluster = c
		return c.Agent.PublicKey, nil
	})
	return cluster, id, err
}
