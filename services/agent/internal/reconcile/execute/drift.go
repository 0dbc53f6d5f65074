// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/compare"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// explainDrift reports what others have changed in an object. It changes nothing in the cluster.
func (r *run) explainDrift(ctx context.Context, o *unstructured.Unstructured) error {
	ref := inventory.RefOf(o)
	found, state := report.ObjectDrift{Ref: ref}, r.Objects.DriftState(ref.Key)
	live, err := r.cluster.Get(ctx, ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return err
	}
	if err == nil {
		wanted, err := r.dryRunCorrection(ctx, o, live)
		if err != nil {
			return err
		}
		found.Fields = compare.Fields(live, wanted, r.manifests.IsConfidential(o))
	}
	r.Objects.ReportDrift(found, state)
	return nil
}

// dryRunCorrection returns what a correction would make of the object: the manifest, if the API server
// would refuse the correction.
func (r *run) dryRunCorrection(ctx context.Context, o, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	wanted, err := r.submitter().DryRun(ctx, o, live, true)
	switch {
	case err == nil:
		return wanted, nil
	case isFatal(ctx, err):
		return nil, err
	default:
		return o, nil
	}
}

// contestedState returns the object as others have left it, if they insist on changing it: people must
// then learn who they are. It returns nil if they do not, and if the object cannot be read.
func (r *run) contestedState(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	ref := inventory.RefOf(o)
	if !r.Objects.MayBeContested(ref.Key) {
		return nil
	}
	live, err := r.cluster.Get(ctx, ref)
	if err != nil {
		return nil // the correction matters, and reports errors of its own
	}
	return live
}

// announceCorrection publishes that what others have changed was corrected. Before is nil if nobody
// insists on the change.
func (r *run) announceCorrection(ctx context.Context, o, before, after *unstructured.Unstructured) {
	ref := inventory.RefOf(o)
	r.log(ctx, slog.LevelInfo, "object was changed by others and is put right", slog.String("object", ref.String()))
	r.Progress.Announce(ref, "was changed by others and is put right")
	found := report.ObjectDrift{Ref: ref}
	if before != nil {
		found.Fields = compare.Fields(before, after, r.manifests.IsConfidential(o))
	}
	r.Objects.ReportContest(found, time.Now())
}
