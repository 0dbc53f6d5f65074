// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"strings"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/intake"
)

// intakeRetry is about when to report again while too many do.
const intakeRetry = 5 * time.Second

// storeRetry is when to try again after the database did not answer.
const storeRetry = 2 * time.Second

// mapped turns an error of the core into the one for the wire. What it does not know passes, and becomes INTERNAL.
func mapped(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*catalog.FieldError](err); ok {
		return rpcerr.Field(e.Path, e.Message)
	}
	if e, ok := errors.AsType[*catalog.ReferenceError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_REFERENCE_NOT_FOUND, err.Error()+"; create it first",
			kindOf(e.Key), nameOf(e.Key), rpcerr.With(rpcerr.MetadataField, e.Path))
	}
	if e, ok := errors.AsType[*catalog.InUseError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_IN_USE, e.Error()+"; remove those references first",
			kindOf(e.Key), nameOf(e.Key), rpcerr.With("by", strings.Join(e.By, ",")))
	}
	if e, ok := errors.AsType[*catalog.NotFoundError](err); ok {
		return rpcerr.NotFound(strings.ToLower(string(e.Key.Kind)), e.Key.Name)
	}
	if e, ok := errors.AsType[*catalog.ExistsError](err); ok {
		return rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS, e.Error()+"; update it, or choose another name",
			kindOf(e.Key), nameOf(e.Key))
	}
	return mappedSentinel(err)
}

func mappedSentinel(err error) error {
	switch {
	case errors.Is(err, catalog.ErrConflict):
		return rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_VERSION_CONFLICT,
			"the object changed since it was read; read it again and send the change with its new resource_version")
	case errors.Is(err, catalog.ErrJoinTokenInvalid):
		return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_JOIN_TOKEN_INVALID,
			"the join token was used before, has expired, or never existed; create a new one")
	case errors.Is(err, intake.ErrBusy):
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"too many agents report at once; report again later", rpcerr.RetryAfter(backoff.Jitter(intakeRetry, 0.5)))
	case errors.Is(err, catalog.ErrUnavailable):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the database does not answer; nothing was changed", rpcerr.With("dependency", "database"), rpcerr.RetryAfter(storeRetry))
	}
	return err
}

// crowded says that too many come at once, and when this one's turn is.
func crowded(wait time.Duration) error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
		"too many agents connect at once; wait as told", rpcerr.RetryAfter(wait))
}

// tooOften returns the error for a caller that calls more often than it needs to. Other callers are not affected.
func tooOften(message string, wait time.Duration) error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, message+"; wait as told", rpcerr.RetryAfter(wait))
}

// behind says that this replica may know less than the one that the caller asked before.
func behind(err error) error {
	if !errors.Is(err, catalog.ErrUnavailable) {
		return mapped(err)
	}
	return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
		"the database does not answer, and without it this replica cannot tell whether its plan is older than yours; keep yours",
		rpcerr.With("dependency", "database"), rpcerr.RetryAfter(storeRetry))
}

func kindOf(key catalog.Key) rpcerr.Option {
	return rpcerr.With(rpcerr.MetadataKind, strings.ToLower(string(key.Kind)))
}

func nameOf(key catalog.Key) rpcerr.Option { return rpcerr.With(rpcerr.MetadataName, key.Name) }

func notFound(key catalog.Key) error { return mapped(&catalog.NotFoundError{Key: key}) }

func denied(message string) error {
	return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED, message)
}

func tokenInvalid(message string) error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, message)
}

func keyRejected() error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_CLUSTER_KEY_REJECTED,
		"the cluster's key was revoked or replaced; enrol the agent again with a new join token")
}

func shuttingDown() error {
	return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_SHUTTING_DOWN, "the server is shutting down; connect again")
}
