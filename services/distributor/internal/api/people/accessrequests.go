// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// askEvery and askBurst bound the access requests that each person makes, at a replica: each one
// sends messages.
const (
	askEvery = 10 * time.Second
	askBurst = 10
)

// sweepEvery is how often a replica looks for access requests that have lapsed, or that are
// forgotten.
const sweepEvery = time.Minute

// AccessRequests implements leat.fleet.v1.AccessRequestService.
type AccessRequests struct {
	people *Service
	asks   *admission.Pace
}

var _ fleetv1connect.AccessRequestServiceHandler = (*AccessRequests)(nil)

// NewAccessRequests returns the service for access requests.
func NewAccessRequests(people *Service) *AccessRequests {
	return &AccessRequests{people: people, asks: admission.NewPace(askEvery, askBurst)}
}

// CreateAccessRequest implements AccessRequestServiceHandler. The answer is the same whether the
// named objects exist or not, so nothing looks for them.
func (a *AccessRequests) CreateAccessRequest(ctx context.Context, req *fleetv1.CreateAccessRequestRequest) (*fleetv1.CreateAccessRequestResponse, error) {
	c, err := a.people.person(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.mayAsk(); err != nil {
		return nil, err
	}
	request, err := codec.AccessRequestOf(&fleetv1.AccessRequest{Spec: req.GetSpec()})
	if err != nil {
		return nil, wire.Error(err)
	}
	if wait, ok := a.asks.Enter(c.Subject()); !ok {
		return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"you have asked for access too often; try again in a few seconds", rpcerr.RetryAfter(wait))
	}
	request.Spec.Requester, request.Spec.RequesterUID = c.Name, c.UID
	stored, err := a.people.d.Editor.RequestAccess(ctx, request)
	if err != nil {
		return nil, wire.Error(err)
	}
	a.people.follow(ctx)
	return &fleetv1.CreateAccessRequestResponse{AccessRequest: c.requestMessage(stored)}, nil
}

// mayAsk returns an error for callers who may not ask for access. A token with a limit would
// otherwise be a way to more than its limit: the binding of an approval is its owner's. The names
// of workloads are made of what others write, such as names of branches, so no bound for each
// person would hold for them.
func (c *caller) mayAsk() error {
	switch {
	case c.rights.IsLimited():
		return wire.Denied("a token with a limit does not ask for access, because an approval would give its owner more than the limit; sign in without one")
	case catalog.IsTrustCredential(c.Credential):
		return wire.Denied("a workload does not ask for access; have an administrator create a binding for it")
	}
	return nil
}

// ApproveAccessRequest implements AccessRequestServiceHandler.
func (a *AccessRequests) ApproveAccessRequest(ctx context.Context, req *fleetv1.ApproveAccessRequestRequest) (*fleetv1.ApproveAccessRequestResponse, error) {
	message, err := a.end(ctx, func(c *caller, editor *catalog.Editor) (*catalog.AccessRequest, error) {
		return editor.ApproveAccess(ctx, req.GetName(), c.Name)
	})
	return &fleetv1.ApproveAccessRequestResponse{AccessRequest: message}, err
}

// DenyAccessRequest implements AccessRequestServiceHandler.
func (a *AccessRequests) DenyAccessRequest(ctx context.Context, req *fleetv1.DenyAccessRequestRequest) (*fleetv1.DenyAccessRequestResponse, error) {
	message, err := a.end(ctx, func(c *caller, editor *catalog.Editor) (*catalog.AccessRequest, error) {
		return editor.DenyAccess(ctx, req.GetName(), c.Name, req.GetWord())
	})
	return &fleetv1.DenyAccessRequestResponse{AccessRequest: message}, err
}

// WithdrawAccessRequest implements AccessRequestServiceHandler.
func (a *AccessRequests) WithdrawAccessRequest(
	ctx context.Context, req *fleetv1.WithdrawAccessRequestRequest,
) (*fleetv1.WithdrawAccessRequestResponse, error) {
	message, err := a.end(ctx, func(c *caller, editor *catalog.Editor) (*catalog.AccessRequest, error) {
		return editor.WithdrawAccess(ctx, req.GetName(), c.Name)
	})
	return &fleetv1.WithdrawAccessRequestResponse{AccessRequest: message}, err
}

// end ends a request as the caller, whom the guard of the editor knows.
func (a *AccessRequests) end(ctx context.Context, do func(*caller, *catalog.Editor) (*catalog.AccessRequest, error)) (*fleetv1.AccessRequest, error) {
	c, err := a.people.person(ctx)
	if err != nil {
		return nil, err
	}
	ended, err := do(c, a.people.d.Editor.Under(guard{c}))
	if err != nil {
		return nil, wire.Error(err)
	}
	a.people.follow(ctx)
	return c.requestMessage(ended), nil
}

// requestMessage returns the message of a request as the caller sees it.
func (c *caller) requestMessage(request *catalog.AccessRequest) *fleetv1.AccessRequest {
	record := c.shown(fleet.Record{Object: request})
	return codec.MessageOf[*fleetv1.AccessRequest](&record)
}

// Run has requests lapse, and forgets old ones. Every replica does it: an edit that finds nothing
// to do stores nothing.
func (a *AccessRequests) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			a.sweep(ctx)
		}
	}
}

// sweep edits the catalog only if the view shows a request that is due.
func (a *AccessRequests) sweep(ctx context.Context) {
	now := catalog.Now()
	if !slices.ContainsFunc(a.people.d.View.Accounts().AccessRequests(), func(r *catalog.AccessRequest) bool { return r.IsDue(now) }) {
		return
	}
	if err := a.people.d.Editor.SweepRequests(ctx); err != nil {
		a.people.d.Logger.WarnContext(ctx, "access requests are not swept; the hub tries again in a minute", slog.Any("error", err))
		return
	}
	a.people.follow(ctx)
}
