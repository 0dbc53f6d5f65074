// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"errors"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// crowded reports that too many agents come at once, and when it is the turn of this one.
func crowded(wait time.Duration) error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
		"too many agents connect at once; wait as told", rpcerr.RetryAfter(wait))
}

// tooOften returns the error for a caller that calls more often than it needs to. Other callers are
// not affected.
func tooOften(message string, wait time.Duration) error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, message+"; wait as told", rpcerr.RetryAfter(wait))
}

// behind reports that this replica may know less than the one that the agent asked before.
func behind(err error) error {
	if !errors.Is(err, catalog.ErrUnavailable) {
		return wire.Error(err)
	}
	return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
		"the database does not answer, and without it this replica cannot know whether its plan is older than yours; keep yours",
		rpcerr.With("dependency", "database"), rpcerr.RetryAfter(wire.StoreRetry))
}

// admissionError returns an error of fleet.View.Admit as agents see it. An agent that is told that its identity has ended
// signs in again, so it is told that only where it is known.
func admissionError(err error) error {
	switch {
	case errors.Is(err, fleet.ErrIdentityEnded):
		return wire.TokenInvalid(fleet.ErrIdentityEnded.Error())
	case errors.Is(err, catalog.ErrUnavailable):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the database does not answer, and without it this replica cannot know whether the cluster's identity lasts; ask again",
			rpcerr.With("dependency", "database"), rpcerr.RetryAfter(wire.StoreRetry))
	}
	return wire.Error(err)
}

// undecided reports that derived services may be missing from this replica's view of the cluster.
// An agent that was given such a plan would remove them.
func undecided() error {
	return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DERIVATION_PENDING,
		"this replica is still deriving services of the cluster; keep the plan that you have, and ask again", rpcerr.RetryAfter(wire.StoreRetry))
}

// keyRejected reports that an assertion was not signed with the cluster's key.
func keyRejected() error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_CLUSTER_KEY_REJECTED,
		"the cluster's key was revoked or replaced; enrol the agent again with a new join token")
}

// intakeRetry is about when to report again while too many agents report.
const intakeRetry = 5 * time.Second

// busy reports that too many reports wait to be stored.
func busy() error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
		"too many agents report at once; report again later", rpcerr.RetryAfter(backoff.Jitter(intakeRetry, 0.5)))
}
