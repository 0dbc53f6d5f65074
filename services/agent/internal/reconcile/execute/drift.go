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

// explainDrift reports how others have changed an object. It changes nothing in the cluster.
func (a *applier) explainDrift(ctx context.Context, o *unstructured.Unstructured) error {
	ref := inventory.RefOf(o)
	found, state := report.ObjectDrift{Ref: ref}, a.r.Objects.DriftState(ref.Key)
	live, err := a.r.cluster.Get(ctx, ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return err
	}
	if err == nil {
		wanted, err := a.dryRunCorrection(ctx, o, live)
		if err != nil {
			return err
		}
		found.Fields = compare.Fields(live, wanted, a.r.manifests.IsConfidential(o))
	}
	a.r.Objects.ReportDrift(found, state)
	return nil
}

// dryRunCorrection returns the result of a correction, or the manifest if the API server would
// reject the correction.
func (a *applier) dryRunCorrection(ctx context.Context, o, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	wanted, err := a.r.submitter().DryRun(ctx, o, live, true)
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
// learn who they are. It returns nil if nobody repeats the change, and if the object cannot be
// read.
func (a *applier) contestedState(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	ref := inventory.RefOf(o)
	if !a.r.Objects.MayBeContested(ref.Key) {
		return nil
	}
	live, err := a.r.cluster.Get(ctx, ref)
	if err != nil {
		return nil // the correction matters, and reports errors of its own
	}
	return live
}

// announceCorrection publishes that a change by others was corrected. Before is nil if nobody
// repeats the change.
func (a *applier) announceCorrection(ctx context.Context, o, before, after *unstructured.Unstructured) {
	ref := inventory.RefOf(o)
	a.r.log(ctx, slog.LevelInfo, "object was changed by others and is put right", slog.String("object", ref.String()))
	a.r.Progress.Announce(ref, "was changed by others and is put right")
	found := report.ObjectDrift{Ref: ref}
	if before != nil {
		found.Fields = compare.Fields(before, after, a.r.manifests.IsConfidential(o))
	}
	a.r.Objects.ReportContest(found, time.Now())
}
