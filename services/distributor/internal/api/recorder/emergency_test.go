// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/metric/noop"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// fullJournal takes no record of a read.
type fullJournal struct{}

func (fullJournal) Refuse(context.Context, catalog.Origin, reason.Reason) {}
func (fullJournal) SignIn(context.Context, catalog.Origin, string)        {}
func (fullJournal) Use(context.Context, catalog.Origin) error             { return catalog.ErrUnrecorded }

// noLimits knows no token with a limit.
type noLimits struct{}

func (noLimits) LimitOf(string) string { return "" }

// readRequest is a call that changes nothing.
type readRequest struct {
	*connect.Request[fleetv1.ListRequest]
}

func (readRequest) Spec() connect.Spec {
	return connect.Spec{Procedure: "/leat.fleet.v1.FleetService/List", IdempotencyLevel: connect.IdempotencyNoSideEffects}
}

// TestSecEmergencyReadsNothingUnrecorded reads as the break-glass user and as another one while no record can
// be written.
func TestSecEmergencyReadsNothingUnrecorded(t *testing.T) {
	t.Parallel()
	r, err := New(Params{Journal: fullJournal{}, Limits: noLimits{}, Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	errRead := errors.New("it was read")
	read := r.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) { return nil, errRead })
	for name, isRead := range map[string]bool{catalog.BreakGlassUser: false, "ada": true} {
		ctx := identity.NewContext(t.Context(), identity.Identity{Kind: identity.KindUser, Name: name})
		_, err := read(ctx, readRequest{connect.NewRequest(&fleetv1.ListRequest{})})
		if errors.Is(err, errRead) != isRead {
			t.Errorf("%s: got %v, want it read: %t", name, err, isRead)
		}
	}
}
