// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package agents answers the calls of clusters' agents: DistributorService. It enrols them, hands
// out plans and configurations, and takes reports.
//
// An agent is given its own cluster's plan and nothing else. Everything but enrolment, reports and
// configurations is answered from memory. Before it refuses an agent, a call makes the view read
// the store, because another replica may have just learnt the missing part. Callers that come all
// at once are admitted one after another and told when to come again.
package agents

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/costs"
	"github.com/leatdev/leat/services/distributor/internal/delivery/intake"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// Deps are the collaborators and settings of the service, all required unless noted.
type Deps struct {
	View       *fleet.View
	Enrolments catalog.Enrolments
	Bootstrap  *Bootstrap
	Intake     *intake.Queue
	Configs    fleet.Configs
	Issuer     *identity.Issuer
	Replay     *admission.Replay
	JoinTokens *admission.JoinTokens
	// Streams, Tokens and Joins admit agents that come all at once: to WatchPlan, RefreshToken and
	// Enroll.
	Streams, Tokens, Joins *admission.Gate
	// Openings bound how often one cluster opens a stream.
	Openings *admission.Pace
	// Seats bound the streams of one cluster.
	Seats *admission.Seats
	// Departures spread agents that have to go elsewhere because the replica stops.
	Departures *admission.Line
	Plans      *fanout.Hub[string]
	// IsCutOff reports whether no new content comes to this replica alone, so that agents do better at another one.
	IsCutOff func() bool
	// Costs counts the calls of clusters.
	Costs *costs.Costs
	// TunnelURL is the public base URL of the tunnel. Empty: there is none.
	TunnelURL string
	// PollInterval is how often agents that hold no stream are to ask for their plan.
	PollInterval time.Duration
}

// Service implements leat.distributor.v1.DistributorService.
type Service struct{ d Deps }

// New returns the service for agents.
func New(d Deps) *Service { return &Service{d: d} }

// agent returns the cluster whose agent calls, and when its token ends.
func (s *Service) agent(ctx context.Context) (*catalog.Cluster, identity.Identity, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindCluster {
		return nil, id, wire.Denied("only a cluster's agent may call this")
	}
	cluster, err := s.d.View.Admit(ctx, id.Name, id.UID)
	if err != nil {
		return nil, id, admissionError(err)
	}
	s.d.Costs.Asked(id.Name)
	trace.SpanFromContext(ctx).SetAttributes(attribute.String(telemetry.KeyCluster, id.Name))
	return cluster, id, nil
}
