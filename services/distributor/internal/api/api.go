// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package api answers the distributor's calls: FleetService for people, DistributorService for agents, AccessService for
// the hub's other services. It is the one place that knows both the wire's types and the domain's.
package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/intake"
	"github.com/leatdev/leat/services/distributor/internal/resolve"
)

const (
	// accessTokenLife is how long access tokens of clusters and people are good.
	accessTokenLife = time.Hour
	// heartbeatInterval is how often a stream says something when nothing happens.
	heartbeatInterval = 20 * time.Second
	// refreshTimeout bounds the wait for upstreams in SyncService.
	refreshTimeout = time.Minute
)

// Resolver has sources asked for now; resolve.Loop is the one.
type Resolver interface {
	// Sync asks and waits for the answers, good or bad. The error is the context's.
	Sync(ctx context.Context, sources []catalog.Source) error
}

// Mirrors is where repositories are mirrored; gitsource.Source is the one.
type Mirrors interface {
	// Refresh has a repository fetched now, and waits for it.
	Refresh(ctx context.Context, repository string) error
	// Push has changed definitions handed over soon.
	Push()
	// Resolve tells what a source holds, whether a service names it or not. Its error is a *resolve.Failure, or the context's.
	Resolve(ctx context.Context, source catalog.Source) (resolve.Answer, error)
}

// Deps are the collaborators and settings of the services, all required unless noted.
type Deps struct {
	View       *fleet.View
	Editor     *catalog.Editor
	Enrolments catalog.Enrolments
	People     catalog.People
	Intake     *intake.Queue
	History    catalog.History
	Configs    catalog.Configs
	Grants     catalog.Grants
	Resolver   Resolver
	Mirrors    Mirrors
	Issuer     *identity.Issuer
	Replay     *admission.Replay
	JoinTokens *admission.JoinTokens
	// Streams, Tokens and Joins let agents in that come all at once: to WatchPlan, RefreshToken and Enroll.
	Streams, Tokens, Joins *admission.Gate
	// Openings bound how often one cluster opens a stream.
	Openings *admission.Pace
	// Seats bound the streams of one cluster.
	Seats *admission.Seats
	// Departures spread agents that have to go elsewhere because the replica stops.
	Departures *admission.Line
	Plans      *fanout.Hub[string]
	Objects    *fanout.Hub[catalog.Key]
	Logger     *slog.Logger
	// Version is the hub's.
	Version string
	// TunnelURL is the public base URL of the tunnel. Empty: there is none.
	TunnelURL string
	// PollInterval is how often agents that hold no stream are to ask for their plan.
	PollInterval time.Duration
}

// Fleet implements leat.fleet.v1.FleetService.
type Fleet struct{ d Deps }

// NewFleet returns the service for people.
func NewFleet(d Deps) *Fleet { return &Fleet{d: d} }

// Distributor implements leat.distributor.v1.DistributorService.
type Distributor struct{ d Deps }

// NewDistributor returns the service for agents.
func NewDistributor(d Deps) *Distributor { return &Distributor{d: d} }

// Access implements leat.distributor.v1.AccessService.
type Access struct{ d Deps }

// Reception implements leat.distributor.v1.ReceptionService.
type Reception struct{ d Deps }

// NewReception returns the service for the tunnel, which dials agents.
func NewReception(d Deps) *Reception { return &Reception{d: d} }

// NewAccess returns the service for the hub's other services.
func NewAccess(d Deps) *Access { return &Access{d: d} }
