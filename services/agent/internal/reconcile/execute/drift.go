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

// drift are the changes by others that a run of sync finds, and corrects or explains.
type drift struct{ r *run }

// explain reports how others have changed an object. It changes nothing in the cluster.
func (d drift) explain(ctx context.Context, o *unstructured.Unstructured) error {
	ref := inventory.RefOf(o)
	found, state := report.ObjectDrift{Ref: ref}, d.r.Objects.DriftState(ref.Key)
	live, err := d.r.cluster.Get(ctx, ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return err
	}
	if err == nil {
		wanted, err := d.dryRunCorrection(ctx, o, live)
		if err != nil {
			return err
		}
		found.Fields = compare.Fields(live, wanted, d.r.manifests.IsConfidential(o))
	}
	d.r.Objects.ReportDrift(found, state)
	return nil
}

// dryRunCorrection returns the result of a correction, or the manifest if the API server would
// reject the correction.
func (d drift) dryRunCorrection(ctx context.Context, o, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	wanted, err := d.r.submitter().DryRun(ctx, o, live, true)
	switch {
	case err == nil:
		return wanted, nil
	case isFatal(ctx, err):
		return nil, err
	default:
		return o, nil
	}
}

// contestedState returns the object in the state to which others keep changing it: people must then
// learn who they are. It returns nil if the change is not repeated, or if the object cannot be
// read.
func (d drift) contestedState(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	ref := inventory.RefOf(o)
	if !d.r.Objects.MayBeContested(ref.Key) {
		return nil
	}
	live, err := d.r.cluster.Get(ctx, ref)
	if err != nil {
		return nil // the correction matters, and reports errors of its own
	}
	return live
}

// announceCorrection publishes that a change by others was corrected. Before is nil if the change
// is not repeated.
func (d drift) announceCorrection(ctx context.Context, o, before, after *unstructured.Unstructured) {
	ref := inventory.RefOf(o)
	d.r.log(ctx, slog.LevelInfo, "object was changed by others and is put right", slog.String("object", ref.String()))
	d.r.Progress.Announce(ref, "was changed by others and is put right")
	found := report.ObjectDrift{Ref: ref}
	if before != nil {
		found.Fields = compare.Fields(before, after, d.r.manifests.IsConfidential(o))
	}
	d.r.Objects.ReportContest(found, time.Now())
}
