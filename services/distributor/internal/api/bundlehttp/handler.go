// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundlehttp serves bundles over plain HTTP: in each form that clients read, with ranges
// and strong tags, and as deltas to agents that hold an older bundle. Package bundles keeps what it
// serves.
package bundlehttp

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/costs"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Pattern is where the handler is mounted; GET includes HEAD.
const Pattern = "GET /v1/bundles/{digest}"

// Plans decides what clusters may read; fleet.Downloads implements it.
type Plans interface {
	// Admit returns the cluster whose identity carries that uid, if it is still good.
	Admit(ctx context.Context, name, identityUID string) (*catalog.Cluster, error)
	// Bundle finds a digest in the plans of a cluster, the current one and some that it replaced.
	Bundle(cluster string, d digest.Digest) (plan.Bundle, bool)
	// IsUndecided reports whether the plan of a cluster may lack services that are not derived yet.
	IsUndecided(cluster string) bool
}

// HandlerParams are a handler's collaborators, all required except Costs.
type HandlerParams struct {
	Cache    *bundles.Cache
	Deltas   *bundles.Deltas
	Plans    Plans
	Verifier identity.Verifier
	Logger   *slog.Logger
	// Costs counts what clusters are sent. Nil: nothing does.
	Costs *costs.Costs
}

// storeRetry is after how long an agent asks again while the database does not answer.
const storeRetry = 2 * time.Second

// derivationRetry is after how long an agent asks again while services of its cluster are not derived.
const derivationRetry = 2 * time.Second

type handler struct {
	p       HandlerParams
	encoder *encoder
}

// find returns the bundle if the caller may read it.
func (h *handler) find(ctx context.Context, d digest.Digest) (plan.Bundle, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindCluster {
		return plan.Bundle{}, rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED, "only a cluster's agent may download bundles")
	}
	cluster, err := h.p.Plans.Admit(ctx, id.Name, id.UID)
	switch {
	case errors.Is(err, catalog.ErrUnavailable):
		return plan.Bundle{}, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the database does not answer, and without it this replica cannot know whether the cluster's identity lasts; ask again",
			rpcerr.With("dependency", "database"), rpcerr.RetryAfter(storeRetry))
	case err != nil:
		return plan.Bundle{}, rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, err.Error())
	}
	wanted, ok := h.p.Plans.Bundle(cluster.Name, d)
	switch {
	case !ok && h.p.Plans.IsUndecided(cluster.Name):
		return plan.Bundle{}, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DERIVATION_PENDING,
			"this replica is still deriving services of the cluster, and does not know yet which bundles they have; ask again", rpcerr.RetryAfter(derivationRetry))
	case !ok:
		return plan.Bundle{}, rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND, "no such bundle is in the cluster's plan; ask for the plan again")
	}
	return wanted, nil
}
