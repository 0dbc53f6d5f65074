// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Journal records refused enrolments; journal.Journal implements it.
type Journal interface {
	// RefuseEnrolment records that a bootstrap token, named by its id, did not enrol an agent.
	RefuseEnrolment(ctx context.Context, origin catalog.Origin, token string, why reason.Reason)
}

// BootstrapDeps are the collaborators of [NewBootstrap], all required.
type BootstrapDeps struct {
	// Editor makes the clusters. It is the hub's own: what a token may make was decided when the token
	// was made.
	Editor  *catalog.Editor
	Tokens  catalog.Bootstraps
	Journal Journal
	Meter   metric.Meter
}

// Bootstrap enrols agents with bootstrap tokens. It is safe for concurrent use.
type Bootstrap struct {
	d          BootstrapDeps
	enrolments metric.Int64Counter
}

// NewBootstrap returns a Bootstrap.
func NewBootstrap(d BootstrapDeps) (*Bootstrap, error) {
	set := instrument.New(d.Meter)
	enrolments := set.Int64Counter("leat.distributor.bootstrap.enrolments", "{enrolment}",
		"Enrolments with valid bootstrap tokens, by outcome: enrolled, or refused because of the number of uses, the name, or an earlier enrolment.")
	return &Bootstrap{d: d, enrolments: enrolments}, set.Err()
}

// enrol enrols an agent, and makes its cluster. It counts the enrolment, and records a refusal.
func (b *Bootstrap) enrol(ctx context.Context, n catalog.Newcomer) (*catalog.Cluster, error) {
	cluster, err := b.d.Editor.Bootstrap(ctx, b.d.Tokens, n)
	refused, isRefused := errors.AsType[*catalog.BootstrapError](err)
	switch {
	case err == nil:
		b.enrolments.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", "enrolled")))
	case isRefused:
		b.enrolments.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", "refused")))
		origin := catalog.OriginOf(ctx)
		origin.TokenID = admission.BootstrapCredential(refused.Token)
		origin.Credential = origin.TokenID
		b.d.Journal.RefuseEnrolment(ctx, origin, refused.Token, reason.FromNumber(int32(rpcerr.ReasonOf(wire.Error(err)))))
	}
	return cluster, err
}
