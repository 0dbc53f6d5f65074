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
	"net/http"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/propagation"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/encodings"
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

// HandlerParams are a handler's collaborators, all required.
type HandlerParams struct {
	Cache *bundles.Cache
	// Encodings has the bundles for clients that do not take zstd.
	Encodings *encodings.Store
	Deltas    *bundles.Deltas
	Plans     Plans
	Verifier  identity.Verifier
	Logger    *slog.Logger
}

// storeRetry is after how long an agent asks again while the database does not answer.
const storeRetry = 2 * time.Second

// derivationRetry is after how long an agent asks again while services of its cluster are not derived.
const derivationRetry = 2 * time.Second

// NewHandler returns the handler of GET and HEAD /v1/bundles/{digest}. A cluster's agent reads the
// bundles that its plan names, or named lately. All others are not found, whether they exist or
// not: only the caller's own plans decide that.
func NewHandler(p HandlerParams) http.Handler {
	return identity.Authenticate(identity.Logged(p.Verifier, p.Logger), &handler{p: p})
}

type handler struct {
	p HandlerParams
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	if err := h.serve(w, r); err != nil {
		rpcerr.WriteHTTP(w, r, rpcerr.Redact(r.Context(), h.p.Logger, err))
	}
}

// serve returns an error only if nothing was written yet.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	d, err := digest.Parse(r.PathValue("digest"))
	if err != nil {
		return rpcerr.Field("digest", "must be sha256: and 64 lower-case hexadecimal digits")
	}
	wanted, err := h.find(r.Context(), d)
	if err != nil {
		return err
	}
	if served, err := h.serveDelta(w, r, wanted); served || err != nil {
		return err
	}
	f, ok := choose(r.Header)
	if !ok {
		setHeaders(w.Header())
		refuse(w, http.StatusNotAcceptable, "the request allows no encoding that there is: zstd, gzip, identity")
		return nil
	}
	return h.send(w, r, wanted, f)
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
			"the database does not answer, and without it this replica cannot tell whether the cluster's identity lasts; ask again",
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
