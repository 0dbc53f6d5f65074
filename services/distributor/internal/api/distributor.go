// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/ed25519"
	"errors"
	"math"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

const (
	// maxReports bounds the services of one report.
	maxReports = 10_000
	// maxText bounds free text that an agent sends of itself.
	maxText = 256
)

// Enroll implements DistributorService.
func (s *Distributor) Enroll(ctx context.Context, req *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	switch {
	case req.GetJoinToken() == "":
		return nil, rpcerr.Field("join_token", "is required")
	case len(req.GetPublicKey()) != ed25519.PublicKeySize:
		return nil, rpcerr.Field("public_key", "must be a raw Ed25519 public key of 32 bytes")
	case len(req.GetAgentVersion()) > maxText:
		return nil, rpcerr.Field("agent_version", "is too long")
	}
	// A guessed token is rejected here. It does not take a place at the gate or cost an edit, which would delay other
	// agents.
	hash := admission.Hash(req.GetJoinToken())
	switch wait, err := s.d.JoinTokens.Admit(ctx, hash, req.GetPublicKey()); {
	case err != nil:
		return nil, mapped(err)
	case wait > 0:
		return nil, tooOften("the join token is used too often", wait)
	}
	if wait, ok := s.d.Joins.Enter(); !ok {
		return nil, crowded(wait)
	}
	cluster, err := s.d.Enrolments.Enrol(ctx, hash, req.GetPublicKey(), req.GetAgentVersion())
	if err != nil {
		s.d.JoinTokens.Refused(hash)
		return nil, mapped(err)
	}
	identity.Verified(ctx)
	// Should the database have gone since, the monitor catches up.
	_ = s.d.View.Refresh(ctx)
	return &distributorv1.EnrollResponse{Cluster: cluster.Name, ClusterUid: cluster.UID, TunnelUrl: s.d.TunnelURL}, nil
}

// errNoKey is one reason to refuse an assertion. Callers learn only that it is refused.
var errNoKey = errors.New("cluster has no key")

// RefreshToken implements DistributorService.
func (s *Distributor) RefreshToken(ctx context.Context, req *distributorv1.RefreshTokenRequest) (*distributorv1.RefreshTokenResponse, error) {
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
	token, expires, err := s.d.Issuer.Issue(id, identity.ServiceDistributor, accessTokenLife)
	if err != nil {
		return nil, err
	}
	forTunnel, _, err := s.d.Issuer.Issue(id, identity.ServiceTunnel, accessTokenLife)
	if err != nil {
		return nil, err
	}
	return &distributorv1.RefreshTokenResponse{
		AccessToken: token, TunnelToken: forTunnel, ExpireTime: timestamppb.New(expires), TunnelUrl: s.d.TunnelURL,
	}, nil
}

// assertedLookingTwice verifies the assertion, and returns its cluster and its id. Before it rejects an assertion, it
// checks whether another replica has just enrolled the key.
func (s *Distributor) assertedLookingTwice(ctx context.Context, assertion string) (*catalog.Cluster, string, error) {
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

func (s *Distributor) asserted(ctx context.Context, assertion string) (*catalog.Cluster, string, error) {
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

// GetPlan implements DistributorService. It is answered from memory.
func (s *Distributor) GetPlan(ctx context.Context, req *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	s.d.View.Heard(cluster)
	res := &distributorv1.GetPlanResponse{PollInterval: durationpb.New(s.d.PollInterval)}
	current, ok := s.d.View.Plan(cluster.Name)
	if known := seen(ctx, req.GetKnownVersion()); ok && current.Version != known {
		if err := s.d.View.CatchUp(ctx, cluster.Name, known); err != nil {
			return nil, behind(err)
		}
		current, ok = s.d.View.Plan(cluster.Name)
	}
	switch {
	case !ok:
		return nil, tokenInvalid("the cluster was deleted")
	case current.Version == req.GetKnownVersion():
		res.Unchanged = true
		return res, revalidate(ctx, formUnchanged, current.Version)
	case req.GetAcceptDelta():
		base, _ := s.d.View.Recent(cluster.Name, req.GetKnownVersion())
		if res.Delta = deltaMessage(base, current); res.Delta != nil {
			return res, revalidate(ctx, formDelta, current.Version)
		}
	}
	if err := revalidate(ctx, formPlan, current.Version); err != nil {
		return nil, err
	}
	res.Plan = planMessage(current)
	return res, nil
}

// ReportStatus implements DistributorService.
func (s *Distributor) ReportStatus(ctx context.Context, req *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	if err := validateReport(req); err != nil {
		return nil, err
	}
	s.d.View.Heard(cluster)
	report := agentReportOf(cluster, req)
	s.d.View.Attribute(cluster, &report)
	receipt, err := s.d.Intake.Take(ctx, report)
	if err != nil {
		return nil, mapped(err)
	}
	res := &distributorv1.ReportStatusResponse{WantFull: receipt.WantFull}
	if receipt.WantFull {
		res.CurrentInstance = &receipt.Current
	}
	return res, nil
}

func validateReport(req *distributorv1.ReportStatusRequest) error {
	switch {
	case req.GetInstance() == "" || len(req.GetInstance()) > maxText:
		return rpcerr.Field("instance", "must be 1 to 256 bytes that name the agent's process")
	case len(req.GetPlanVersion()) > maxText:
		return rpcerr.Field("plan_version", "is too long")
	case req.GetSequence() == 0 || req.GetSequence() > math.MaxInt64:
		return rpcerr.Field("sequence", "must be counted from 1")
	case len(req.GetServices()) > maxReports:
		return rpcerr.Field("services", "has more than 10000 reports; send them in parts")
	}
	return nil
}
