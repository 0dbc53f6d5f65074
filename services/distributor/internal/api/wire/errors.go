// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"strings"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// StoreRetry is after how long a caller tries again if the database did not answer.
const StoreRetry = 2 * time.Second

// Error returns the error to answer with for an error of the core. An error that it does not know
// passes unchanged, and becomes INTERNAL.
func Error(err error) error {
	if err == nil {
		return nil
	}
	// It comes first, because its cause may be about a field that the caller did not send.
	if e, ok := errors.AsType[*derive.Error](err); ok {
		why := errorsv1.Reason_REASON_DERIVATION_FAILED
		if errors.Is(err, expression.ErrTooExpensive) {
			why = errorsv1.Reason_REASON_DERIVATION_TOO_EXPENSIVE
		}
		return rpcerr.New(connect.CodeUnavailable, why, e.Error(), rpcerr.RetryAfter(StoreRetry))
	}
	if e, ok := errors.AsType[*fielderr.Error](err); ok {
		return rpcerr.Field(e.Path, e.Message)
	}
	if e, ok := errors.AsType[*authz.DeniedError](err); ok {
		return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED, err.Error(),
			rpcerr.With("permission", e.Permission.String()))
	}
	if _, ok := errors.AsType[*authz.EscalationError](err); ok {
		return Denied(err.Error())
	}
	if e, ok := errors.AsType[*catalog.DerivedError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_SERVICE_DERIVED, e.Error(),
			kindOf(catalog.Key{Kind: catalog.KindService}), nameOf(catalog.Key{Name: e.Service}), rpcerr.With("global", objectname.Display(e.Global)))
	}
	if e, ok := errors.AsType[*catalog.RemovalError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_REMOVAL_GUARDED, e.Error(),
			kindOf(catalog.Key{Kind: catalog.KindGlobalService}), nameOf(catalog.Key{Name: e.Global}), rpcerr.With("digest", e.Digest))
	}
	if e, ok := errors.AsType[*catalog.CascadeError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_REMOVAL_GUARDED, e.Error(),
			kindOf(catalog.Key{Kind: catalog.KindGlobalService}), nameOf(catalog.Key{Name: e.Global}))
	}
	if e, ok := errors.AsType[*catalog.ReferenceError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_REFERENCE_NOT_FOUND, err.Error()+"; create it first",
			kindOf(e.Key), nameOf(e.Key), rpcerr.With(rpcerr.MetadataField, e.Path))
	}
	if e, ok := errors.AsType[*catalog.InUseError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_IN_USE, e.Error()+"; remove those references first",
			kindOf(e.Key), nameOf(e.Key), rpcerr.With("by", strings.Join(e.Names(), ",")))
	}
	if e, ok := errors.AsType[*catalog.NotFoundError](err); ok {
		return rpcerr.NotFound(strings.ToLower(string(e.Key.Kind)), objectname.Display(e.Key.Name))
	}
	if e, ok := errors.AsType[*catalog.AmbiguousError](err); ok {
		return rpcerr.New(connect.CodeInvalidArgument, errorsv1.Reason_REASON_NAME_AMBIGUOUS, e.Error()+"; name one of them",
			kindOf(e.Key), nameOf(e.Key), rpcerr.With("candidates", strings.Join(e.Names(), ",")))
	}
	if e, ok := errors.AsType[*catalog.ExistsError](err); ok {
		return rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS, e.Error()+"; update it, or choose another name",
			kindOf(e.Key), nameOf(e.Key))
	}
	if e, ok := errors.AsType[*catalog.ManagedError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_FLEET_SOURCE_MANAGED, e.Error()+": change its document in Git, or suspend the fleet source",
			kindOf(e.Key), nameOf(e.Key), rpcerr.With("fleetsource", objectname.Display(e.Source)))
	}
	if e, ok := errors.AsType[*catalog.WritersError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_FLEET_SOURCE_WRITTEN,
			e.Error()+"; suspend them, and resume them when the fleet source is there",
			kindOf(catalog.Key{Kind: catalog.KindFleetSource}), nameOf(catalog.Key{Name: e.Source}), rpcerr.With("by", strings.Join(e.Names(), ",")))
	}
	if e, ok := errors.AsType[*catalog.BootstrapError](err); ok {
		return refusedBootstrap(e)
	}
	if refused := refusedRequest(err); refused != nil {
		return refused
	}
	return mappedSentinel(err)
}

// refusedBootstrap returns the error for an agent that a bootstrap token does not enrol.
func refusedBootstrap(e *catalog.BootstrapError) error {
	cluster := nameOf(catalog.Key{Name: e.Cluster})
	switch e.Why {
	case catalog.RefusedSpent:
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_BOOTSTRAP_TOKEN_SPENT, e.Error())
	case catalog.RefusedName:
		return rpcerr.New(connect.CodeInvalidArgument, errorsv1.Reason_REASON_CLUSTER_NAME_REFUSED, e.Error(), cluster)
	case catalog.RefusedTaken:
		return rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_CLUSTER_NAME_TAKEN, e.Error(), cluster)
	case catalog.RefusedEnrolled:
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_CLUSTER_ENROLLED, e.Error(), cluster)
	}
	return e
}

// refusedRequest returns the error for an access request that is not stored or not decided about; nil if err is another one.
func refusedRequest(err error) error {
	if e, ok := errors.AsType[*catalog.RequestsFullError](err); ok {
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_ACCESS_REQUESTS_FULL, e.Error())
	}
	if e, ok := errors.AsType[*catalog.RequestClosedError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_ACCESS_REQUEST_CLOSED, e.Error(),
			nameOf(catalog.Key{Name: e.Name}), rpcerr.With("state", string(e.State)))
	}
	if e, ok := errors.AsType[*catalog.OwnRequestError](err); ok {
		return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_REQUEST_OWN, e.Error(), nameOf(catalog.Key{Name: e.Name}))
	}
	if e, ok := errors.AsType[*catalog.NotRequesterError](err); ok {
		return Denied(e.Error())
	}
	return nil
}

func mappedSentinel(err error) error {
	switch {
	case errors.Is(err, catalog.ErrConflict):
		return rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_VERSION_CONFLICT,
			"the object changed since it was read; read it again and send the change with its new resource_version")
	case errors.Is(err, catalog.ErrJoinTokenInvalid):
		return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_JOIN_TOKEN_INVALID,
			"the join token was used before, has expired, or never existed; create a new one")
	case errors.Is(err, catalog.ErrUnrecorded):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the hub cannot write its audit log, so nothing was changed; retry, and tell an administrator",
			rpcerr.With("dependency", "audit log"), rpcerr.RetryAfter(StoreRetry))
	case errors.Is(err, catalog.ErrUndecided):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DERIVATION_PENDING,
			"the hub has just started and does not know yet which services it derives, so it cannot review the change; nothing was changed; retry",
			rpcerr.RetryAfter(StoreRetry))
	case errors.Is(err, catalog.ErrBehind):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DERIVATION_PENDING, err.Error()+"; retry", rpcerr.RetryAfter(StoreRetry))
	case errors.Is(err, catalog.ErrExpensive):
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_DERIVATION_TOO_EXPENSIVE, err.Error()+"; nothing was changed")
	case errors.Is(err, catalog.ErrUnavailable):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the database does not answer; nothing was changed", rpcerr.With("dependency", "database"), rpcerr.RetryAfter(StoreRetry))
	}
	return err
}

func kindOf(key catalog.Key) rpcerr.Option {
	return rpcerr.With(rpcerr.MetadataKind, strings.ToLower(string(key.Kind)))
}

func nameOf(key catalog.Key) rpcerr.Option {
	return rpcerr.With(rpcerr.MetadataName, objectname.Display(key.Name))
}

// NotFound reports that there is no such object.
func NotFound(key catalog.Key) error { return Error(&catalog.NotFoundError{Key: key}) }

// Denied reports that the caller may not do this.
func Denied(message string) error {
	return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED, message)
}

// TokenInvalid reports that the caller has to obtain a new token.
func TokenInvalid(message string) error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, message)
}

// ShuttingDown ends a stream because the replica stops.
func ShuttingDown() error {
	return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_SHUTTING_DOWN, "the server is shutting down; connect again")
}
