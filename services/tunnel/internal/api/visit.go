// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// apiGroup is the API group in audit records of the hub's own resources.
const apiGroup = "leat.tunnel.v1"

// denied returns the error for a caller who may not make the call.
func denied(access permission.Access) error {
	return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
		fmt.Sprintf("you lack the permission %q in the hub; ask an administrator for a binding whose role has it", access.Verb+" "+access.Resource),
		rpcerr.With("permission", access.Verb+" "+access.Resource))
}

// authorize returns nil if the caller has the permission of the call now. The groups in a token are as
// old as the token. A user that was deleted or removed from a group would keep the permission for up
// to an hour.
func (s *Service) authorize(ctx context.Context, caller identity.Identity, access permission.Access) error {
	if caller.Kind != identity.KindUser {
		return denied(access)
	}
	decision, err := s.deps.Access.Check(ctx, policy.Question{
		Subject: caller.Subject(), SubjectUID: caller.UID, Credential: caller.Credential, Groups: caller.Groups,
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the distributor does not say whether you may make this call; retry", rpcerr.With("dependency", "distributor"))
	case !decision.Has(policy.Permission{Verb: access.Verb, Resource: access.Resource}):
		return denied(access)
	}
	return nil
}

// visit is one call that shows recordings. It has an audit trail, as a request for a cluster has.
type visit struct {
	service *Service
	caller  identity.Identity
	trail   *audit.Trail
	access  permission.Access
	checked time.Time // when the caller was last confirmed to have the permission
	bytes   int64     // of recordings, sent to the caller
	revoked bool
}

// visit authorizes and records a call. It allows people with the call's permission, and other replicas
// if local is set: only they may see what was on a user's terminal. If visit returns no error, its caller must
// call end.
func (s *Service) visit(ctx context.Context, local bool, asked audit.Request) (*visit, error) {
	caller, _ := identity.FromContext(ctx)
	v := &visit{service: s, caller: caller, access: permission.OfCall(ctx), checked: time.Now()}
	var refused error
	if !local || caller.Kind != identity.KindService || caller.Name != serviceName {
		refused = s.authorize(ctx, caller, v.access)
	}
	asked.Subject, asked.SubjectUID, asked.TokenID, asked.Claims = caller.Subject(), caller.UID, caller.TokenID, caller.Claims
	asked.ID = audit.NewID()
	if asked.TraceID = asked.ID; trace.SpanContextFromContext(ctx).HasTraceID() {
		asked.TraceID = trace.SpanContextFromContext(ctx).TraceID().String()
	}
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		asked.SourceAddress, asked.UserAgent = info.Peer().Addr, info.RequestHeader().Get("User-Agent")
		asked.Method, asked.URI = info.HTTPMethod(), info.Spec().Procedure
	}
	v.trail = audit.Begin(s.deps.Sink, asked)
	decision := audit.Decision{Allowed: refused == nil}
	if refused != nil {
		decision.Reason = reasonOf(refused)
	}
	if err := v.trail.Decide(ctx, decision); err != nil {
		return nil, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the hub cannot write its audit log, so that the call was not carried out; retry, and tell an administrator")
	}
	if refused != nil {
		return nil, refused
	}
	return v, nil
}

// sent counts bytes of a recording, and checks from time to time whether the caller still has the
// permission. If the distributor does not answer, the call continues.
func (v *visit) sent(ctx context.Context, n int) error {
	v.bytes += int64(n)
	if v.caller.Kind != identity.KindUser || time.Since(v.checked) < v.service.deps.RecheckInterval {
		return nil
	}
	err := v.service.authorize(ctx, v.caller, v.access)
	if v.revoked = connect.CodeOf(err) == connect.CodePermissionDenied; v.revoked {
		return err
	}
	v.checked = time.Now()
	return nil
}

// end records how the call ended. If the record cannot be written, the audit output logs that.
func (v *visit) end(ctx context.Context, err error) {
	result := audit.Result{Status: 200, BytesOut: v.bytes, Outcome: audit.OutcomeCompleted}
	switch code := connect.CodeOf(err); {
	case err == nil:
	case v.revoked:
		result.Status, result.Outcome, result.Reason = 403, audit.OutcomeRevoked, reasonOf(err)
	case ctx.Err() != nil:
		result.Outcome = audit.OutcomeCanceled
	case v.bytes > 0:
		result.Outcome = audit.OutcomeInterrupted
	case code == connect.CodeNotFound:
		result.Status, result.Reason = 404, reasonOf(err)
	case code == connect.CodeInvalidArgument:
		result.Status, result.Reason = 400, reasonOf(err)
	default:
		result.Status, result.Outcome, result.Reason = 503, audit.OutcomeFailed, reasonOf(err)
	}
	_ = v.trail.End(context.WithoutCancel(ctx), result)
}

// asked returns the fields of an audit record about a call's object.
func asked(verb, resource, name, cluster string) audit.Request {
	return audit.Request{
		Cluster: cluster, Attributes: audit.Attributes{Verb: verb, APIGroup: apiGroup, Resource: resource, Name: name},
	}
}

// reasonOf returns the reason of an error.
func reasonOf(err error) reason.Reason {
	return reason.FromNumber(int32(rpcerr.ReasonOf(err)))
}
