// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"crypto/ed25519"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/recorder"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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
	newcomer := catalog.Newcomer{
		Hash: admission.Hash(req.GetJoinToken()), Key: req.GetPublicKey(), AgentVersion: req.GetAgentVersion(),
		Name: req.GetClusterName(), KubernetesUID: req.GetKubernetesUid(),
	}
	isBootstrap := identity.IsBootstrapToken(req.GetJoinToken())
	if isBootstrap {
		if err := newcomer.Validate(); err != nil {
			return nil, wire.Error(err)
		}
	}
	// A guessed token is rejected here. It does not take a place at the gate or cost an edit, which
	// would delay other agents.
	switch wait, err := s.d.JoinTokens.Admit(ctx, newcomer.Hash, newcomer.Key); {
	case err != nil:
		return nil, wire.Error(err)
	case wait > 0:
		return nil, tooOften("the join token is used too often", wait)
	}
	if wait, ok := s.d.Joins.Enter(); !ok {
		return nil, crowded(wait)
	}
	cluster, err := s.enrol(recorder.Anonymous(ctx), newcomer, isBootstrap)
	if err != nil {
		if errors.Is(err, catalog.ErrJoinTokenInvalid) {
			s.d.JoinTokens.Refused(newcomer.Hash)
		}
		return nil, wire.Error(err)
	}
	identity.Verified(ctx)
	// If the database has gone since, the monitor catches up.
	_ = s.d.View.Refresh(ctx)
	return &distributorv1.EnrollResponse{Cluster: cluster.Name, ClusterUid: cluster.UID, TunnelUrl: s.d.TunnelURL}, nil
}

// enrol enrols an agent for the cluster of its join token, or makes it one by a bootstrap token.
func (s *Service) enrol(ctx context.Context, n catalog.Newcomer, isBootstrap bool) (*catalog.Cluster, error) {
	if isBootstrap {
		return s.d.Bootstrap.enrol(ctx, n)
	}
	return s.d.Enrolments.Enrol(ctx, n.Hash, n.Key, n.AgentVersion)
}

// errNoKey is one reason to refuse an assertion. Callers learn only that it is refused.
var errNoKey = errors.New("cluster has no key")

// RefreshToken implements DistributorService.
func (s *Service) RefreshToken(ctx context.Context, req *distributorv1.RefreshTokenRequest) (*distributorv1.RefreshTokenResponse, error) {
	if req.GetAssertion() == "" {
		return nil, rpcerr.Field("assertion", "is required")
	}
	verified, ok, err := s.verify(ctx, req.GetAssertion())
	if err != nil {
		return nil, admissionError(err)
	}
	if !ok {
		return nil, keyRejected()
	}
	cluster := verified.cluster
	switch wait, err := s.d.Replay.Spend(cluster.UID, verified.id); {
	case errors.Is(err, admission.ErrTooOften):
		return nil, tooOften("the agents of this cluster ask for tokens too often", wait)
	case err != nil:
		return nil, keyRejected()
	}
	identity.Verified(ctx)
	// The caller is an agent: others do not come this far, so they cannot use up the gate.
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

// assertion is one that was verified.
type assertion struct {
	cluster *catalog.Cluster
	id      string
}

// verify verifies an assertion. It looks twice, because another replica may just have enrolled the
// key. If the store does not answer, err matches catalog.ErrUnavailable: the key may be good, and an
// agent whose key the hub rejects stays away for a minute and calls for a person.
func (s *Service) verify(ctx context.Context, text string) (assertion, bool, error) {
	return fleet.LookTwice(ctx, s.d.View, func() (a assertion, ok bool) {
		_, id, err := identity.VerifyAssertion(ctx, text, func(_ context.Context, name string) (ed25519.PublicKey, error) {
			c, ok := s.d.View.Catalog.Cluster(name)
			if !ok || !c.Agent.Enrolled() {
				return nil, errNoKey
			}
			a.cluster = c
			return c.Agent.PublicKey, nil
		})
		a.id = id
		return a, err == nil
	})
}
